"""Baseline of the synthesis measurement: a CDK app with one stack of one resource.

The CDK's validation refuses a stack without resources; this one creates nothing in AWS and costs nothing.
"""

from aws_cdk import App, CfnWaitConditionHandle, Stack

if __name__ == "__main__":
    app = App()
    CfnWaitConditionHandle(Stack(app, "Empty"), "Nothing")
    app.synth()
