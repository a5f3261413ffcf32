"""The Docker engine of this machine: images are pulled as they are named."""

from unittest.mock import Mock

import docker
import docker.errors
import pytest
from docker.models.images import ImageCollection

from perfgate.host import docker_engine

DIGEST = f"sha256:{'0123abcd' * 8}"


@pytest.mark.parametrize(
    ("image", "repository", "tag"),
    [
        ("apache/kafka:4.3.1", "apache/kafka", "4.3.1"),
        ("apache/kafka", "apache/kafka", "latest"),
        ("registry.example:5000/kafka", "registry.example:5000/kafka", "latest"),
        (f"apache/kafka@{DIGEST}", "apache/kafka", DIGEST),
    ],
)
def test_an_image_that_is_not_here_is_pulled_as_it_is_named(
    monkeypatch: pytest.MonkeyPatch, image: str, repository: str, tag: str
) -> None:
    """One by its digest was looked for under a tag that no registry has."""
    api = Mock(base_url="http+docker://localhost")
    api.inspect_image.side_effect = [docker.errors.ImageNotFound("no such image"), {"Id": "i"}]
    api.pull.return_value = []
    engine = Mock(api=api, images=ImageCollection(Mock(api=api)))
    monkeypatch.setattr(docker, "from_env", lambda **_: engine)
    docker_engine.have_images([image], print, option="--kafka-image")
    api.pull.assert_called_once_with(repository, tag=tag, stream=True, all_tags=False)
