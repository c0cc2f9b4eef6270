"""Limits of AWS accounts: quotas by account profile, requests for increases, API rates, service-linked roles.

`POST /localcloud/quotas` grants quota increases, which AWS takes minutes to days for
(https://docs.aws.amazon.com/servicequotas/latest/userguide/request-quota-increase.html): `{}` grants every pending
request, and `{"service": "fargate", "quota": "L-3032A538", "value": 64}` sets a quota in all Regions, or in one with
the key `region`.
"""
