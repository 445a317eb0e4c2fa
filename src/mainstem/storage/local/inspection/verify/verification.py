"""Is everything on disk what was written? Every checksum, every place, every name that something else relies on."""

from __future__ import annotations

from collections.abc import Iterator

from mainstem.storage.local.directories import Directories
from mainstem.storage.local.inspection.finding import Finding, damage, note
from mainstem.storage.local.inspection.survey import Survey, Visitor
from mainstem.storage.local.inspection.verify.checked import Checked
from mainstem.storage.local.inspection.verify.coverage import check_coverage
from mainstem.storage.local.inspection.verify.run_check import RunCheck
from mainstem.storage.local.inspection.verify.tails import Tails
from mainstem.storage.local.runs.run_file import RunIndex
from mainstem.storage.local.wal.stored_group import StoredGroup
from mainstem.storage.runtime.disk import Disk


class _Witness(Visitor):
    """Looks at what recovery takes for granted."""

    def __init__(self, checked: Checked) -> None:
        self.findings: list[Finding] = []
        self.tails = Tails()
        self._checked = checked

    def take_item(self, scope: str, key: bytes, value: bytes | None) -> None:
        """Only counted: the survey decodes what it needs."""
        self._checked.state_items += 1

    def take_group(self, path: str, group: StoredGroup) -> None:
        """References must lead somewhere."""
        self._checked.groups += 1
        self._checked.batches += 0 if group.data is None else len(group.data.logs)
        self.tails.take(group)
        if group.refs is None:
            return
        data = group.data
        batches = {}
        if data is not None:
            facts = zip(data.sizes, data.counts, data.crcs, strict=True)
            batches = dict(zip(zip(data.logs, data.bases, strict=True), facts, strict=True))
        for log, _, _, source, source_base, *fact in zip(*group.refs, strict=True):
            if batches.get((source, source_base)) != tuple(fact):
                what = f"reference leads to offset {source_base} of log {source}, which is not what it must be"
                self.findings.append(damage(path, group.position, what, (log,)))


class Verification:
    """One pass over a data directory."""

    def __init__(self, disk: Disk, directories: Directories, checked: Checked) -> None:
        self._disk = disk
        self._directories = directories
        self._checked = checked

    def findings(self) -> Iterator[Finding]:
        """All that there is to say."""
        witness = _Witness(self._checked)
        survey = Survey(self._disk, self._directories, witness).run()
        sizes = {file.path: file.bytes for file in survey.files}
        for path in (*survey.state_runs, *(part.path for part in survey.wal)):
            self._checked.add_file(sizes[path])
        yield from survey.findings
        yield from witness.findings
        indexes: list[tuple[str, RunIndex]] = []
        for run in survey.runs:
            check = RunCheck(self._disk, run.path, run, survey.state, self._checked)
            yield from check.findings()
            if check.index is not None:
                indexes.append((run.path, check.index))
        if not survey.is_state_whole:
            yield from self._unnamed_runs(survey)
        elif len(indexes) == len(survey.runs) == len(survey.state.runs):
            yield from check_coverage(survey, indexes, witness.tails, self._directories.wal)

    def _unnamed_runs(self, survey: Survey) -> Iterator[Finding]:
        """State is damaged, so that a run may be live though nobody names it: look at all."""
        named = {run.path for run in survey.runs}
        for file in survey.files:
            if file.kind == "run" and file.path not in named:
                yield from RunCheck(self._disk, file.path, None, survey.state, self._checked).findings()


def verify(disk: Disk, directories: Directories, checked: Checked, *, moving: bool) -> Iterator[Finding]:
    """The findings; `checked` counts what was looked at.

    `moving` says that a broker works on the directory. Then files change under the eye that reads them, and damage counts only
    when a second look sees it too.
    """
    first = Verification(disk, directories, checked).findings()
    if not moving:
        yield from first
        return
    seen = list(first)
    if any(finding.is_trouble for finding in seen):
        again = list(Verification(disk, directories, Checked()).findings())
        lasting = {finding for finding in seen if finding.is_trouble}.intersection(again)
        seen = [_settle(finding, lasting) for finding in again]
    yield from seen


def _settle(finding: Finding, lasting: set[Finding]) -> Finding:
    if not finding.is_trouble or finding in lasting:
        return finding
    return note(finding.file, finding.position, f"changed while it was read, and looked like damage: {finding.what}")
