"""For `launcher: none`: each host runs this program once, on its own share of the objects, and writes its part.

The channel is `ShardedByS3Key`, so SageMaker gives each host different objects. No host needs a connection to another.
"""

import json

from trainer import metrics, ranks, records


def main() -> None:
    """Count the records of this host's files, and write one file whose name has the host's number."""
    here = ranks.current()
    counts = {}
    for path in records.files("train"):
        counts[path.name] = sum(1 for _ in records.read(path))
        metrics.report(files=len(counts), records=sum(counts.values()))
    here.folders.model.mkdir(parents=True, exist_ok=True)
    (here.folders.model / f"records-{here.rank}.json").write_text(json.dumps(counts))


if __name__ == "__main__":
    main()
