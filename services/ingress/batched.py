"""Submissions that meet share a transaction, whichever door they came through."""

from fencepost.batching import Batcher, BatchLimits

from services.ingress.operations import Intake, tell
from services.ingress.settings import IngressSettings
from services.ingress.submissions import Submission, SubmissionOutcome


class BatchedIntake:
    """Takes single submissions in; they must be authorised and valid before they join.

    One that the database refuses fails alone, large bodies go by themselves, an idle one waits for
    nobody. What concerns the caller, figures and span, is told in the caller's own context.
    """

    def __init__(self, intake: Intake, settings: IngressSettings) -> None:
        self._batcher = Batcher(
            intake.take,
            size_bytes=lambda submission: len(submission.body),
            limits=BatchLimits(
                items_max=settings.batch_items_max,
                bytes_max=settings.batch_bytes_max,
                large_item_bytes=settings.large_body_bytes,
                large_items_bytes_max=settings.large_bodies_bytes_max,
            ),
        )

    async def submit(self, submission: Submission) -> SubmissionOutcome:
        """What became of it, as `Intake.submit` says; raises also Draining, once closed.

        A caller who goes away may leave it taken in: the same delivery id again tells (X6).
        """
        outcome = await self._batcher.submit(submission)
        tell(submission, outcome)
        return outcome

    async def close(self) -> None:
        """Returns when all that was let in is answered."""
        await self._batcher.close()
