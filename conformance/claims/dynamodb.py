"""DynamoDB: conditional writes, on which the ledger is built."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from botocore.config import Config
from botocore.exceptions import ClientError

from conformance.aws import Aws, refused
from conformance.claim import claim
from conformance.resources.storage import own_table, table, table_with_index
from conformance.sources import model, page

_INDEX_SECONDS = 900.0
"""The time in which an index of a small table is complete; the documentation has no figure."""
_CONDITIONS = "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Expressions.ConditionExpressions.html"


def _key(aws: Aws, sort: str = "a") -> dict[str, dict[str, str]]:
    return {"pk": {"S": aws.name("item")}, "sk": {"S": sort}}


@claim(
    page(
        "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/WorkingWithItems.html",
        "A failed conditional write returns a ConditionalCheckFailedException",
    ),
    used_by="traingrid/ledger/ledger.py traingrid/aws/dynamodb.py",
)
def failed_condition_is_an_error_of_its_own(aws: Aws) -> None:
    """A write whose condition is not met fails with ConditionalCheckFailedException and changes nothing."""
    dynamodb, name, key = aws.client("dynamodb"), table(aws), _key(aws)
    dynamodb.put_item(TableName=name, Item=key | {"v": {"N": "1"}}, ConditionExpression="attribute_not_exists(pk)")
    with refused("ConditionalCheckFailedException"):
        dynamodb.put_item(TableName=name, Item=key | {"v": {"N": "2"}}, ConditionExpression="attribute_not_exists(pk)")
    assert dynamodb.get_item(TableName=name, Key=key, ConsistentRead=True)["Item"]["v"] == {"N": "1"}


@claim(
    page(
        "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/WorkingWithItems.html",
        "helpful in cases where multiple users attempt to modify the same item",
    ),
    used_by="traingrid/ledger/ledger.py traingrid/aws/dynamodb.py",
)
def one_of_many_writers_wins(aws: Aws) -> None:
    """If twenty writers use the same condition at the same time, exactly one succeeds."""
    dynamodb, name, key = aws.client("dynamodb"), table(aws), _key(aws)

    def write(number: int) -> bool:
        item = key | {"v": {"N": str(number)}}
        try:
            dynamodb.put_item(TableName=name, Item=item, ConditionExpression="attribute_not_exists(pk)")
        except ClientError:
            return False
        return True

    with ThreadPoolExecutor(20) as pool:
        assert sum(pool.map(write, range(20))) == 1


@claim(
    model("dynamodb", "QueryInput", "ScanIndexForward"),
    used_by="traingrid/aws/dynamodb.py traingrid/ledger/ledger.py",
)
def query_returns_a_partition_in_order(aws: Aws) -> None:
    """Query returns the items of one partition in the order of their sort keys, across pages."""
    dynamodb, name = aws.client("dynamodb"), table(aws)
    partition = aws.name("partition")
    for sort in ("b", "a", "c"):
        dynamodb.put_item(TableName=name, Item={"pk": {"S": partition}, "sk": {"S": sort}})
    query = {"KeyConditionExpression": "pk = :p", "ExpressionAttributeValues": {":p": {"S": partition}}}
    first = dynamodb.query(TableName=name, Limit=2, ConsistentRead=True, **query)
    rest = dynamodb.query(TableName=name, ConsistentRead=True, ExclusiveStartKey=first["LastEvaluatedKey"], **query)
    assert [item["sk"]["S"] for item in (*first["Items"], *rest["Items"])] == ["a", "b", "c"]


@claim(
    page(
        "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html",
        "The maximum item size in DynamoDB is 400 KB",
    ),
    used_by="traingrid/ledger/ledger.py",
)
def item_has_at_most_400_kb(aws: Aws) -> None:
    """An item of more than 400 KB is refused with ValidationException."""
    with refused("ValidationException"):
        aws.client("dynamodb").put_item(TableName=table(aws), Item=_key(aws) | {"v": {"S": "x" * 410 * 1024}})


@claim(
    page(
        "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/GSI.html",
        "results returned by a Query operation is 1 MB",
    ),
    used_by="traingrid/ledger/job_states.py traingrid/aws/dynamodb.py",
)
def page_of_an_index_has_a_megabyte_of_its_entries(aws: Aws) -> None:
    """A page of Query has up to 1 MB of items; of an index, the sizes of its entries count, not those of the items."""
    dynamodb, name, partition = aws.client("dynamodb"), table_with_index(aws), aws.name("partition")
    for sort in "abcd":
        item = {"pk": {"S": partition}, "sk": {"S": sort}, "v": {"S": "small"}, "w": {"S": "x" * 300_000}}
        dynamodb.put_item(TableName=name, Item=item)
    query = {"KeyConditionExpression": "pk = :p", "ExpressionAttributeValues": {":p": {"S": partition}}}
    of_table = dynamodb.query(TableName=name, ConsistentRead=True, **query)
    assert "LastEvaluatedKey" in of_table, of_table["Count"]

    def complete() -> bool:
        found = dynamodb.query(TableName=name, IndexName="small", **query)
        return found["Count"] == 4 and "LastEvaluatedKey" not in found

    assert aws.wait(complete, "all entries of the index in one page")  # an index is eventually consistent


@claim(
    page("https://github.com/awslabs/aws-sdk-ios-samples/issues/58", "The table does not have the specified index"),
    used_by="traingrid/aws/dynamodb.py",
)
def missing_index_is_a_validation_error(aws: Aws) -> None:
    """A query of an index that the table does not have is refused with ValidationException."""
    query = {"KeyConditionExpression": "pk = :p", "ExpressionAttributeValues": {":p": {"S": "x"}}}
    with refused("ValidationException"):
        aws.client("dynamodb").query(TableName=table(aws), IndexName="none", **query)


@claim(
    page(
        "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-indexes-general-sparse-indexes.html",
        "only if the index sort key value is present in the item",
    ),
    used_by="stacks/ledger.py traingrid/ledger/ledger.py",
)
def new_index_has_the_existing_items_with_both_keys(aws: Aws) -> None:
    """An index that is added to a table gets the existing items that have both of its keys, and no others."""
    dynamodb, name = aws.client("dynamodb"), own_table(aws)
    for sort, more in (("a", {"at": {"S": "1"}}), ("b", {"v": {"S": "1"}}), ("c", {"at": {"S": "0"}})):
        dynamodb.put_item(TableName=name, Item={"pk": {"S": f"of {sort}"}, "sk": {"S": "head"}} | more)
    dynamodb.update_table(TableName=name, **_new_indexes("heads"))

    def listed() -> list[str]:
        indexes = dynamodb.describe_table(TableName=name)["Table"].get("GlobalSecondaryIndexes", [])
        if [index["IndexStatus"] for index in indexes] != ["ACTIVE"]:
            return []
        query = {"KeyConditionExpression": "sk = :sk", "ExpressionAttributeValues": {":sk": {"S": "head"}}}
        return [item["pk"]["S"] for item in dynamodb.query(TableName=name, IndexName="heads", **query)["Items"]]

    found = aws.wait(listed, "the new index", seconds=_INDEX_SECONDS)
    assert found == ["of c", "of a"], found


@claim(
    model("dynamodb", "UpdateTableInput", "You can create or delete only one global secondary index per"),
    used_by="stacks/ledger.py",
)
def update_creates_one_index(aws: Aws) -> None:
    """An update of a table that creates two indexes is refused with LimitExceededException."""
    once: Any = Config(retries={"total_max_attempts": 1})  # botocore would repeat the request as a throttled one
    make: Any = aws.place.session.client
    dynamodb = make("dynamodb", region_name=aws.home, endpoint_url=aws.place.endpoint, config=once)
    with refused("LimitExceededException"):
        dynamodb.update_table(TableName=own_table(aws), **_new_indexes("one", "two"))


def _new_indexes(*names: str) -> dict[str, Any]:
    keys = [{"AttributeName": "sk", "KeyType": "HASH"}, {"AttributeName": "at", "KeyType": "RANGE"}]
    projection = {"ProjectionType": "ALL"}
    return {
        "AttributeDefinitions": [{"AttributeName": key, "AttributeType": "S"} for key in ("pk", "sk", "at")],
        "GlobalSecondaryIndexUpdates": [
            {"Create": {"IndexName": name, "KeySchema": keys, "Projection": projection}} for name in names
        ],
    }
