"""CodeBuild: runs the buildspec's commands on this machine, with substitutes for `docker` and the AWS CLI.

moto 5.2.5 stores projects and reports success for every build. Here a build is a process: the commands of all phases in
one shell, with the project's variables, the variables of StartBuild, and the keys of the service role. The build status
is that of the shell; the log goes to CloudWatch, and an event to the default bus.

The account's quotas limit the number of concurrent builds of each compute type (`localcloud.limits`).

`docker buildx build` checks that all files that the Dockerfile copies exist, and creates an image that is a process of
this checkout (`docker`). Not built: sources other than NO_SOURCE, artifacts, reports, batch
builds, webhooks, build queues, phases after a failed one, and timeouts.
"""
