"""EKS: clusters with a Kubernetes API, access entries and Pod Identity associations.

moto 5.2.5 stores clusters, but has neither their API nor access entries or associations, so `service` answers all
calls. Not built: node groups, Fargate profiles, add-ons, access entries of nodes, the ConfigMap `aws-auth`, target
roles and session policies of Pod Identity, encryption, logging, versions and upgrades.
"""
