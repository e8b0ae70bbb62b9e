"""Maps each command to the type of its document, and failed commands to theirs.

A command that is not listed has no document. Nothing heavy is imported: the types need no tensor.
"""

from collections.abc import Mapping

from touchstone.scripts.documents.document_fields import Document
from touchstone.scripts.documents.home_documents import (
    CompletionDocument,
    DemoDocument,
    DevnetDocument,
    DoctorDocument,
    ErrorDocument,
    ExplorerDocument,
    HelpDocument,
    InitDocument,
    KeysExportDocument,
    KeysPasswordDocument,
    VersionDocument,
)
from touchstone.scripts.documents.model_documents import (
    CalibrateDocument,
    DataPackDocument,
    EvalDocument,
    ExportDocument,
    PolicyDocument,
    ReplayDocument,
    SampleDocument,
)
from touchstone.scripts.documents.offer_documents import TasksDocument
from touchstone.scripts.documents.overview_documents import StatusDocument, TopDocument
from touchstone.scripts.documents.posting_documents import (
    HaltDocument,
    TaskCheckDocument,
    TaskCloseDocument,
    TaskCreateDocument,
    TaskExampleDocument,
    TaskInitDocument,
    TaskRecordDocument,
    TaskServeDocument,
)
from touchstone.scripts.documents.stake_documents import (
    LeaveDocument,
    SharesClaimDocument,
    SharesDocument,
    SharesPayDocument,
    SolveDocument,
    StakeDocument,
    VerifyDocument,
    WatchDocument,
    WithdrawDocument,
)

ERROR = "error"
"""Stands for a command's words, for the document of a command that failed."""
DOCUMENTS: Mapping[str, type[Document]] = {
    ERROR: ErrorDocument,
    "calibrate": CalibrateDocument,
    "completion": CompletionDocument,
    "data pack": DataPackDocument,
    "demo": DemoDocument,
    "devnet": DevnetDocument,
    "doctor": DoctorDocument,
    "eval": EvalDocument,
    "explorer": ExplorerDocument,
    "export": ExportDocument,
    "help": HelpDocument,
    "init": InitDocument,
    "keys export": KeysExportDocument,
    "keys password": KeysPasswordDocument,
    "leave": LeaveDocument,
    "policy": PolicyDocument,
    "replay": ReplayDocument,
    "sample": SampleDocument,
    "shares claim": SharesClaimDocument,
    "shares halt": HaltDocument,
    "shares pay": SharesPayDocument,
    "shares show": SharesDocument,
    "shares vote": SharesDocument,
    "solve": SolveDocument,
    "stake": StakeDocument,
    "status": StatusDocument,
    "top": TopDocument,
    "task check": TaskCheckDocument,
    "task close": TaskCloseDocument,
    "task create": TaskCreateDocument,
    "task serve": TaskServeDocument,
    "task example": TaskExampleDocument,
    "task halt": HaltDocument,
    "task init": TaskInitDocument,
    "task record": TaskRecordDocument,
    "tasks": TasksDocument,
    "verify": VerifyDocument,
    "version": VersionDocument,
    "watch": WatchDocument,
    "withdraw": WithdrawDocument,
}
