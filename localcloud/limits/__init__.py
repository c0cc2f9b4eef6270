"""Limits of AWS accounts: quotas by account profile, requests for increases, API rates, service-linked roles.

`POST /localcloud/quotas` does what AWS does when it grants: `{}` grants every pending request, and
`{"service": "fargate", "quota": "L-3032A538", "value": 64}` gives a quota a value in all Regions, or in that of a key
`region`. AWS takes from minutes to days for the same
(https://docs.aws.amazon.com/servicequotas/latest/userguide/request-quota-increase.html).
"""
