"""Registries: the account that owns an algorithm's image in each Region that offers it.

Source: the tables of the SageMaker Python SDK, version 2.27.0 of sagemaker-core, which `cdk synth` reads for the
deployed grid (https://github.com/aws/sagemaker-python-sdk, sagemaker-core/src/sagemaker/core/image_uri_config/). They
are repeated here, without the partitions of China and of isolated Regions, so that a manifest can be planned without
that SDK; a test compares both. The pages of the developer guide have the same accounts
(https://docs.aws.amazon.com/sagemaker/latest/dg-ecr-paths/sagemaker-algo-docker-registry-paths.html).
"""

from __future__ import annotations

VISION = {
    "af-south-1": "455444449433",
    "ap-east-1": "286214385809",
    "ap-northeast-1": "501404015308",
    "ap-northeast-2": "306986355934",
    "ap-northeast-3": "867004704886",
    "ap-south-1": "991648021394",
    "ap-south-2": "628508329040",
    "ap-southeast-1": "475088953585",
    "ap-southeast-2": "544295431143",
    "ap-southeast-3": "951798379941",
    "ap-southeast-4": "106583098589",
    "ca-central-1": "469771592824",
    "ca-west-1": "190319476487",
    "eu-central-1": "813361260812",
    "eu-central-2": "680994064768",
    "eu-north-1": "669576153137",
    "eu-south-1": "257386234256",
    "eu-south-2": "104374241257",
    "eu-west-1": "685385470294",
    "eu-west-2": "644912444149",
    "eu-west-3": "749696950732",
    "il-central-1": "898809789911",
    "me-central-1": "272398656194",
    "me-south-1": "249704162688",
    "sa-east-1": "855470959533",
    "us-east-1": "811284229777",
    "us-east-2": "825641698319",
    "us-gov-east-1": "237065988967",
    "us-gov-west-1": "226302683700",
    "us-west-1": "632365934929",
    "us-west-2": "433757028032",
}
"""The accounts of image-classification and object-detection (image-classification.json, object-detection.json)."""

XGBOOST = {
    "af-south-1": "510948584623",
    "ap-east-1": "651117190479",
    "ap-northeast-1": "354813040037",
    "ap-northeast-2": "366743142698",
    "ap-northeast-3": "867004704886",
    "ap-south-1": "720646828776",
    "ap-south-2": "628508329040",
    "ap-southeast-1": "121021644041",
    "ap-southeast-2": "783357654285",
    "ap-southeast-3": "951798379941",
    "ap-southeast-4": "106583098589",
    "ca-central-1": "341280168497",
    "ca-west-1": "190319476487",
    "eu-central-1": "492215442770",
    "eu-central-2": "680994064768",
    "eu-north-1": "662702820516",
    "eu-south-1": "978288397137",
    "eu-south-2": "104374241257",
    "eu-west-1": "141502667606",
    "eu-west-2": "764974769150",
    "eu-west-3": "659782779980",
    "il-central-1": "898809789911",
    "me-central-1": "272398656194",
    "me-south-1": "801668240914",
    "sa-east-1": "737474898029",
    "us-east-1": "683313688378",
    "us-east-2": "257758044811",
    "us-gov-east-1": "237065988967",
    "us-gov-west-1": "414596584902",
    "us-west-1": "746614075791",
    "us-west-2": "246618743249",
}
"""The accounts of xgboost from version 1.2-1 on (xgboost.json)."""
