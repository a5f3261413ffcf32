"""The Docker engine of this machine: images are pulled as they are named, and one that nobody has is one error."""

from unittest.mock import Mock

import docker
import docker.errors
import pytest
from docker.models.images import ImageCollection

from perfgate.host import docker_engine
from perfgate.model.errors import ConfigurationError

DIGEST = f"sha256:{'0123abcd' * 8}"
NOT_HERE = docker.errors.ImageNotFound("no such image")


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Return the interface of an engine that has no image, and pulls what it is asked for."""
    api = Mock(base_url="http+docker://localhost")
    api.inspect_image.side_effect = [NOT_HERE, {"Id": "i"}]
    api.pull.return_value = []
    engine = Mock(api=api, images=ImageCollection(Mock(api=api)))
    monkeypatch.setattr(docker, "from_env", lambda **_: engine)
    return api


@pytest.mark.parametrize(
    ("image", "repository", "tag"),
    [
        ("apache/kafka:4.3.1", "apache/kafka", "4.3.1"),
        ("apache/kafka", "apache/kafka", "latest"),
        ("registry.example:5000/kafka", "registry.example:5000/kafka", "latest"),
        (f"apache/kafka@{DIGEST}", "apache/kafka", DIGEST),
    ],
)
def test_an_image_that_is_not_here_is_pulled_as_it_is_named(api: Mock, image: str, repository: str, tag: str) -> None:
    """One by its digest was looked for under a tag that no registry has."""
    docker_engine.have_images([image], print, option="--kafka-image")
    api.pull.assert_called_once_with(repository, tag=tag, stream=True, all_tags=False)


@pytest.mark.parametrize("pulled", [False, True])
def test_an_image_that_cannot_be_had_is_one_error(api: Mock, *, pulled: bool) -> None:
    """A name that no image may have, as one with capitals, was a traceback."""
    refused = docker.errors.APIError("400 Client Error", explanation="invalid reference format")
    api.inspect_image.side_effect = NOT_HERE if pulled else refused
    api.pull.side_effect = refused
    with pytest.raises(ConfigurationError, match="cannot be pulled: invalid reference format; name another with --k"):
        docker_engine.have_images(["Apache/Kafka:4.3.1"], print, option="--kafka-image")
