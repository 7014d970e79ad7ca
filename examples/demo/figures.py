"""What came of it, as one line of JSON, and what of it is not as it must be."""

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from examples.demo.cast import Cast
from examples.demo.play import StepFailedError, Story
from examples.demo.trace import FLUSHES, is_whole, untold

PSS_LIMIT_MB = 150.0
EVIDENCE = "<!-- fencepost-review "


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The demonstration's result; the names are what scripts rely on."""

    delivery: str
    review_key: str
    dispatch_epoch: int
    flushes: int
    publications: int
    remote_reviews: int
    second_answer: str
    trace_spans: int
    seconds_to_publication: float
    pss_mb: Mapping[str, float]

    def as_json(self) -> dict[str, object]:
        """For printing."""
        return asdict(self)


def measure(cast: Cast, story: Story) -> Figures:
    """Reads the figures off the story, the forge, the receiver and the processes."""
    granted = story.of_kind("lease.granted")
    return Figures(
        delivery=story.delivery_id,
        review_key=story.review_key,
        dispatch_epoch=max((int(event.ids["epoch"]) for event in granted), default=0),
        flushes=len(story.of_kind("checkpoint.flushed")),
        publications=len(story.of_kind("publication.succeeded")),
        remote_reviews=len(story.reviews),
        second_answer=story.second.outcome if story.second else "",
        trace_spans=len({span.span_id for span in story.spans}),
        seconds_to_publication=round(story.seconds_to_publication, 3),
        pss_mb={
            service: round(proportional_set_size_mb(pid), 1)
            for service, pid in cast.suite.process_ids.items()
        },
    )


def wrong(figures: Figures, story: Story, cast: Cast) -> list[str]:
    """A sentence for each thing that is not as it must be; none when all is right."""
    must: dict[str, Callable[[], bool]] = {
        "the key must name repository, number and head": lambda: (
            figures.review_key == f"{cast.pull.repo_name}#{cast.pull.number}@{cast.pull.head_sha}"
        ),
        "the lease must have been granted once, at epoch 1": lambda: figures.dispatch_epoch == 1,
        f"{FLUSHES} flushes must be durable": lambda: figures.flushes == FLUSHES,
        "the ledger must hold one publication": lambda: figures.publications == 1,
        "the forge must hold one review": lambda: figures.remote_reviews == 1,
        "the review must carry its evidence": lambda: all(
            EVIDENCE in review.body for review in story.reviews
        ),
        "the second answer must be DUPLICATE": lambda: figures.second_answer == "DUPLICATE",
        f"each service must stay below {PSS_LIMIT_MB:.0f} MB": lambda: all(
            size < PSS_LIMIT_MB for size in figures.pss_mb.values()
        ),
        "the trace must be whole: every service, every parent, the end of each flush": lambda: (
            is_whole(story.spans)
        ),
    }
    broken = [sentence for sentence, holds in must.items() if not holds()]
    return broken + untold(story.spans)


def proportional_set_size_mb(pid: int) -> float:
    """Memory of a process, pages shared with others counted in part."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError as error:
        raise StepFailedError(f"The memory of process {pid} cannot be read: {error}.") from error
    found = re.search(r"^Pss:\s+(\d+) kB", rollup, re.MULTILINE)
    if found is None:
        raise StepFailedError(f"The memory of process {pid} is not told by the kernel.")
    return int(found[1]) / 1000
