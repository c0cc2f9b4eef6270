"""The training image, run as on SageMaker. `make test-containers` builds the image, which takes minutes."""

import time
from collections.abc import Callable, Sequence

from tests.containers.cluster import Cluster
from tests.containers.engine import podman
from tests.support.tiny import TINY

HOSTS = ("algo-1", "algo-2")

MakeCluster = Callable[[Sequence[str]], Cluster]


def test_two_hosts_that_resolve_late_train_together(cluster: MakeCluster) -> None:
    hosts = cluster(HOSTS)
    hosts.start(TINY)
    time.sleep(5.0)  # on SageMaker, names may take longer to resolve
    assert not hosts.knows("algo-1", "algo-2")
    assert hosts.running("algo-1"), hosts.log("algo-1")
    assert hosts.running("algo-2"), hosts.log("algo-2")
    hosts.introduce()

    assert hosts.wait() == {"algo-1": 0, "algo-2": 0}, hosts.log("algo-1") + hosts.log("algo-2")
    log = hosts.log("algo-1")
    assert "mpirun" in log
    assert "--host localhost:2,algo-2:2" in log
    assert "ranks=4" in log
    assert model_files(hosts, "algo-1")
    assert not model_files(hosts, "algo-2")
    assert not (hosts.folder / "algo-1" / "output" / "failure").exists()


def test_one_host_trains_with_mpirun_alone(cluster: MakeCluster) -> None:
    host = cluster(HOSTS[:1])
    host.start(TINY)

    assert host.wait() == {"algo-1": 0}, host.log("algo-1")
    log = host.log("algo-1")
    assert "--host localhost:2 " in log
    assert "ranks=2" in log
    assert model_files(host, "algo-1")


def test_a_failed_rank_fails_the_job_on_every_host_with_its_reason(cluster: MakeCluster) -> None:
    hosts = cluster(HOSTS)
    hosts.start(TINY | {"classes": "5"})
    hosts.introduce()

    assert hosts.wait() == {"algo-1": 1, "algo-2": 1}, hosts.log("algo-1") + hosts.log("algo-2")
    failure = (hosts.folder / "algo-1" / "output" / "failure").read_text()
    assert failure.startswith("Rank ")
    assert "label" in failure
    assert not model_files(hosts, "algo-1")


def test_the_native_reader_is_in_the_image(image: str) -> None:
    program = "from training_container.trainer.demux import record_reader as r; print(r.load_plugin())"
    run = ["run", "--rm", "--network", "none", "--env", "PYTHONPATH=/opt/traingrid", "--env", "TF_CPP_MIN_LOG_LEVEL=3"]
    assert podman(*run, image, "python3", "-c", program) == "True"


def test_the_image_contains_nothing_of_the_build_machine(image: str) -> None:
    places = "/run/secrets /wheels /src /tmp /etc/pip.conf /root/.config /root/.cache /etc/apt/apt.conf"
    look = f"find {places} -type f 2>/dev/null; grep -h '^deb ' /etc/apt/sources.list | grep -v deb.debian.org; true"
    assert podman("run", "--rm", "--network", "none", image, "sh", "-c", look) == ""


def model_files(cluster: Cluster, host: str) -> list[str]:
    """Return the names of the files that would be uploaded as model.tar.gz from a host."""
    folder = cluster.folder / host / "model"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []
