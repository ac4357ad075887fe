"""The walk of one probe: which of our files run between the command line and the identified state."""

import sys
from pathlib import Path

COMMAND = "audit --dim 32 --trials 1 --kind record --probe designed --precision float64 --recovery rank-one"
COMMAND += " --jobs 1 --no-remedy"


def walk(words: list[str], whole: bool = False) -> list[str]:
    """Run a command under a profiler; return our files in the order in which one of their functions first runs.

    Not counted is what runs while a module is imported, and while features are loaded. Recording starts with the
    command and ends when the first state is identified; with ``whole`` nothing is left out but imports.
    """
    import exhume
    from exhume.cli.main import main

    root = Path(exhume.__file__).parent
    found: dict[str, None] = {}
    aside = 0  # how many calls deep in what is not counted
    done = False

    def left_out(name: str) -> bool:
        return name == "<module>" or (not whole and name == "load_features")

    def profile(frame, event, argument):
        nonlocal aside, done
        code = frame.f_code
        if event == "call":
            if left_out(code.co_name):
                aside += 1
            elif not aside and not done and code.co_filename.startswith(str(root)):
                found.setdefault(str(Path(code.co_filename).relative_to(root)))
        elif event == "return":
            if left_out(code.co_name):
                aside -= 1
            done = done or (not whole and code.co_name == "direct" and argument is not None)

    sys.argv = ["exhume", *words]
    sys.setprofile(profile)
    try:
        main()
    except SystemExit as end:
        assert not end.code, end.code
    finally:
        sys.setprofile(None)
    return list(found)


if __name__ == "__main__":
    print("\n".join(walk([*COMMAND.split(), "--out", sys.argv[1]], whole="--whole" in sys.argv)), file=sys.stderr)
