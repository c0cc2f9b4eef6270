"""The CDK app that synthesis is measured against: one stack, with the one resource that CloudFormation asks for.

Its resource is nothing in AWS and costs nothing; a stack without any is refused by the CDK's own validation.
"""

from aws_cdk import App, CfnWaitConditionHandle, Stack

if __name__ == "__main__":
    app = App()
    CfnWaitConditionHandle(Stack(app, "Empty"), "Nothing")
    app.synth()
