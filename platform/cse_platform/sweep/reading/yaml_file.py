"""A YAML file that holds one mapping, and its problems with their lines."""

from collections.abc import Sequence
from pathlib import Path

from cse_platform.errors import PlatformError
from cse_platform.sweep.reading.problems import Problem, dotted_path, format_value
from cse_platform.sweep.reading.yaml_reader import (
    MAX_CHARACTERS,
    UnreadableYamlError,
    YamlDocument,
    read_yaml,
    real_path,
)


def read_yaml_file(path: Path, *, what: str, refusal: type[PlatformError]) -> YamlDocument:
    """Read a file whose one document is a mapping with the key `sweep`.

    `refusal` is raised where it cannot be read; `what` it should be, e.g. `a sweep`, goes into the
    message.
    """
    try:
        with path.open("rb") as file:  # no more than what is too much: it may be a disk image
            content = file.read(4 * MAX_CHARACTERS + 1)
        source = read_yaml(content.decode("utf-8-sig"))
    except FileNotFoundError:
        raise refusal(f"{path}: no such file") from None
    except IsADirectoryError:
        raise refusal(f"{path} is a folder; name a file in it") from None
    except OSError as error:
        raise refusal(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        text = f"byte {error.start} is not UTF-8 text"
        raise refusal(f"{path} is not {what}:\n  {text}") from None
    except UnreadableYamlError as error:
        raise refusal(f"{path} is not {what}:\n  {error}") from None
    if not isinstance(source.data, dict):
        found = "it is empty" if source.data is None else f"got {format_value(source.data)}"
        text = f"expected a mapping that begins with 'sweep: NAME', {found}"
        raise refusal(f"{path} is not {what}:\n  line {source.place(())}: {text}")
    return source


def problem_list(path: Path, what: str, problems: Sequence[Problem], source: YamlDocument) -> str:
    """A line for each problem of a file, in the order of the file, after what they mean for it."""
    lines = []
    for problem in problems:
        steps = real_path(problem.path, source.data)
        place = source.place(steps) if problem.place is None else problem.place
        where = f"line {place}" if isinstance(place, int) else place
        name = f", {dotted_path(steps)}" if steps else ""
        order = (place if isinstance(place, int) else float("inf"), where, name)
        lines.append((order, f"  {where}{name}: {problem.text}"))
    texts = [text for _, text in sorted(dict.fromkeys(lines))]
    return "\n".join([f"{path} {what}:", *texts])
