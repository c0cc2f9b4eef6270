"""CSV cases: invalid CSV and invalid cells, in the plain form and with a header."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.unit.manifest.corpus import Case

if TYPE_CHECKING:
    from collections.abc import Iterator

URI = "s3://ragab-ml/x"


def cases() -> Iterator[Case]:
    for name, text, field, reason in (*PLAIN, *HEADERS, *ROWS):
        yield Case(f"CSV: {name}", text.encode(), field, reason)


PLAIN = [
    ("one cell", "us-east-1", "line", "this one has 1"),
    ("four cells", f"us-east-1,{URI},name,more", "line", "this one has 4"),
    ("a lone comma", ",", "file", "no jobs"),
    ("semicolons, as some spreadsheets write", f"us-east-1;{URI}", "line", "separated by semicolons"),
    ("tabs", f"us-east-1\t{URI}", "line", "separated by tabs"),
    ("a lone quote", f'us-east-1,"{URI}', "line", "invalid CSV"),
    ("a quote in the middle", f'us-east-1,"{URI}"x', "line", "invalid CSV"),
    ("a cell over two lines", f'us-east-1,{URI},"two\nlines"', "line", "invalid CSV"),
    ("an unknown Region", f"us-east-9,{URI}", "region", "not a training Region"),
    ("a Region in capitals", f"US-EAST-1,{URI}", "region", "not a training Region"),
    ("a Region with a Cyrillic letter", f"us-e\u0430st-1,{URI}", "region", "not a training Region"),
    ("a Region with a full-width digit", f"us-east-\uff11,{URI}", "region", "not a training Region"),
    ("a Region with a zero-width space", f"us-east-1\u200b,{URI}", "region", "not a training Region"),
    ("a Region with a non-breaking hyphen", f"us\u2011east-1,{URI}", "region", "not a training Region"),
    ("a Region that is a path", f"../us-east-1,{URI}", "region", "not a training Region"),
    ("a Region and a colour of the terminal", f"\x1b[31mus-east-1,{URI}", "region", "not a training Region"),
    ("a Region of China", f"cn-north-1,{URI}", "region", "not a training Region"),
    ("a formula", f'=HYPERLINK("http://x"),{URI}', "region", "not a training Region"),
    ("a formula as a Region", f"=1+1,{URI}", "region", "not a training Region"),
    ("cells the wrong way round", f"{URI},us-east-1", "region", "not a training Region"),
    ("http", "us-east-1,http://ragab-ml/x", "s3_uri", "must start with s3://"),
    ("https to S3", "us-east-1,https://ragab-ml.s3.amazonaws.com/x", "s3_uri", "must start with s3://"),
    ("s3a", "us-east-1,s3a://ragab-ml/x", "s3_uri", "must start with s3://"),
    ("S3 in capitals", "us-east-1,S3://ragab-ml/x", "s3_uri", "must start with s3://"),
    ("a local path", "us-east-1,/etc/passwd", "s3_uri", "must start with s3://"),
    ("file:", "us-east-1,file:///etc/passwd", "s3_uri", "must start with s3://"),
    ("an ARN", "us-east-1,arn:aws:s3:::ragab-ml/x", "s3_uri", "must start with s3://"),
    ("a lambda of a URL", "us-east-1,javascript:alert(1)", "s3_uri", "must start with s3://"),
    ("no bucket", "us-east-1,s3:///x", "s3_uri", "the bucket name after s3:// is invalid"),
    ("a bucket in capitals", "us-east-1,s3://Ragab-ML/x", "s3_uri", "the bucket name after s3:// is invalid"),
    ("a bucket with a user", "us-east-1,s3://me@ragab-ml/x", "s3_uri", "the bucket name after s3:// is invalid"),
    ("a bucket with a port", "us-east-1,s3://ragab-ml:80/x", "s3_uri", "the bucket name after s3:// is invalid"),
    (
        "an access point",
        "us-east-1,s3://arn:aws:s3:us-east-1:123456789012:accesspoint/x",
        "s3_uri",
        "the bucket name after s3:// is invalid",
    ),
    ("an address", "us-east-1,s3://169.254.169.254/latest", "s3_uri", "the bucket name after s3:// is invalid"),
    ("a bucket of 64 characters", f"us-east-1,s3://{'b' * 64}/x", "s3_uri", "the bucket name after s3:// is invalid"),
    ("a bucket of two letters", "us-east-1,s3://ab/x", "s3_uri", "the bucket name after s3:// is invalid"),
    ("a bucket with a Greek letter", "us-east-1,s3://ragab-mλ/x", "s3_uri", "the bucket name after s3:// is invalid"),
    ("a foreign bucket", "us-east-1,s3://somebody-elses/x", "s3_uri", "this grid may not read"),
    ("a bucket that begins like ours", "us-east-1,s3://ragab-ml-evil/x", "s3_uri", "this grid may not read"),
    ("our bucket of another Region", "us-east-1,s3://ragab-ml-pdx/x", "s3_uri", "is in us-west-2"),
    (
        "the manifest bucket",
        "us-east-1,s3://traingrid-manifests-123456789012-us-east-1/submissions",
        "s3_uri",
        "this grid may not read",
    ),
    ("the folder above", "us-east-1,s3://ragab-ml/x/../other", "s3_uri", "'.' or '..'"),
    ("the folder above, first", "us-east-1,s3://ragab-ml/../other", "s3_uri", "'.' or '..'"),
    ("the folder itself", "us-east-1,s3://ragab-ml/./x", "s3_uri", "'.' or '..'"),
    ("an empty folder", "us-east-1,s3://ragab-ml//x", "s3_uri", "empty"),
    ("an encoded dot", "us-east-1,s3://ragab-ml/%2e%2e/other", "s3_uri", "encoded dot or slash"),
    ("an encoded dot in capitals", "us-east-1,s3://ragab-ml/%2E%2E/other", "s3_uri", "encoded dot or slash"),
    ("an encoded slash", "us-east-1,s3://ragab-ml/x%2f..%2fother", "s3_uri", "encoded dot or slash"),
    ("an encoded NUL", "us-east-1,s3://ragab-ml/x%00", "s3_uri", "encoded dot or slash"),
    ("a key of 1,025 bytes", f"us-east-1,s3://ragab-ml/{'x' * 1025}", "s3_uri", "at most 1024 bytes"),
    ("a key of 1,026 bytes in 513 letters", f"us-east-1,s3://ragab-ml/{'é' * 513}", "s3_uri", "at most 1024"),
    ("a key too long for a channel", f"us-east-1,s3://ragab-ml/{'x' * 1010}", "s3_uri", "at most 1,024"),
    ("a bell in a key", "us-east-1,s3://ragab-ml/x\x07", "s3_uri", "control character"),
    ("DEL in a key", "us-east-1,s3://ragab-ml/x\x7fy", "s3_uri", "control character"),
    ("a line separator in a key", "us-east-1,s3://ragab-ml/x\u2028y", "s3_uri", "control character"),
    ("text from right to left in a key", "us-east-1,s3://ragab-ml/\u202egpj.x", "s3_uri", "control character"),
    ("nothing but a Region", "us-east-1,", "s3_uri", "must start with s3://"),
    ("a colour of the terminal in a name", f"us-east-1,{URI},\x1b[2Jgone", "name", "control characters"),
    ("a new line in a name, escaped", f"us-east-1,{URI},a\x85b", "name", "control characters"),
    ("a name from right to left", f"us-east-1,{URI},\u202eeman", "name", "control characters"),
    ("a zero-width joiner in a name", f"us-east-1,{URI},a\u200db", "name", "control characters"),
    ("a name of 129 characters", f"us-east-1,{URI},{'n' * 129}", "name", "got 129"),
]

HEADERS = [
    ("no column region", f"s3_uri,name\n{URI},x\n", "file", "no column region"),
    ("a column twice", f"region,s3_uri,region\nus-east-1,{URI},us-east-1\n", "file", "'region' 2 times"),
    ("a hyperparameter twice", f"region,s3_uri,hp.a,hp.a\nus-east-1,{URI},1,2\n", "file", "'hp.a' 2 times"),
    ("a column twice, in capitals", f"region,s3_uri,Region\nus-east-1,{URI},x\n", "file", "'region' 2 times"),
    ("a value beyond the last column", f"region,s3_uri,,\nus-east-1,{URI},,3\n", "line", "4 cells"),
    ("a column without a name", f"region,,s3_uri\nus-east-1,3,{URI}\n", "line", "column 2 has no name"),
    ("an unknown column", f"region,s3_uri,epochs\nus-east-1,{URI},3\n", "field", "unknown field"),
    ("a misspelt column", f"region,s3_uri,instance_typ\nus-east-1,{URI},x\n", "field", "unknown field"),
    ("a prefix alone", f"region,s3_uri,hp.\nus-east-1,{URI},3\n", "field", "unknown field"),
    ("a mapping as one column", f"region,s3_uri,hyperparameters\nus-east-1,{URI},3\n", "field", "one entry of it"),
    ("inputs as one column", f"region,inputs\nus-east-1,{URI}\n", "field", "one entry of it"),
    ("a role", f"region,s3_uri,role\nus-east-1,{URI},admin\n", "field", "the deployment sets this"),
    ("a role's ARN", f"region,s3_uri,RoleArn\nus-east-1,{URI},arn\n", "field", "the deployment sets this"),
    ("subnets", f"region,s3_uri,subnets\nus-east-1,{URI},subnet-1\n", "field", "the deployment sets this"),
    ("security groups", f"region,s3_uri,security_group_ids\nus-east-1,{URI},sg\n", "field", "the deployment sets this"),
    ("a key", f"region,s3_uri,kms_key_id\nus-east-1,{URI},k\n", "field", "the deployment sets this"),
    ("an access key", f"region,s3_uri,aws_access_key_id\nus-east-1,{URI},k\n", "field", "the deployment sets this"),
    ("an account", f"region,s3_uri,account_id\nus-east-1,{URI},1\n", "field", "the deployment sets this"),
    ("a formula as a column", f"region,s3_uri,=1+1\nus-east-1,{URI},1\n", "field", "unknown field"),
    ("an escape as a column", f"region,s3_uri,\x1b[31m\nus-east-1,{URI},1\n", "field", "unknown field"),
]

ROWS = [
    ("a cell too few", "region,s3_uri\nus-east-1\n", "line", "1 cells, and the header has 2"),
    ("a cell too many", f"region,s3_uri\nus-east-1,{URI},x\n", "line", "3 cells, and the header has 2"),
    ("a quote that is not closed", f'region,s3_uri,hp.a\nus-east-1,{URI},"1\n', "line", "invalid CSV"),
    ("an empty Region", f"region,s3_uri\n,{URI}\n", "region", "required"),
    ("no data", "region,s3_uri\nus-east-1,\n", "s3_uri", "s3_uri or inputs is required"),
    ("data in two ways", f"region,s3_uri,input.train\nus-east-1,{URI},{URI}\n", "s3_uri", "cannot be combined"),
    ("a header again", f"region,s3_uri\nus-east-1,{URI}\nregion,s3_uri\n", "region", "not a training Region"),
    ("JSON in CSV", f'region,s3_uri\n{{"region": "us-east-1"}}\nus-east-1,{URI}\n', "line", "1 cells"),
]
