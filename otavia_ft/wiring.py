"""Introduces the native lane to Python: the classes it makes, the functions it falls back on.

Imported for its effect, once everything that it names can be imported.
"""

from __future__ import annotations

from otavia_ft.address import Address
from otavia_ft.context import bare_stack
from otavia_ft.house import engine, handlers
from otavia_ft.house.house import NOBODY
from otavia_ft.lane import connect
from otavia_ft.message import Envelope, SystemMessage
from otavia_ft.stack.driver import CoroutineState, checked_reply
from otavia_ft.stack.promise import FAILURE, PENDING, SUCCESS, MessagePromise, no_answer
from otavia_ft.stack.stack import AskStack, NoticeStack, refuse_finish, refuse_suspend
from otavia_ft.stack.state import StackState, StackYield

__all__: list[str] = []

connect(
    {
        # What it compares with.
        "pending": PENDING,
        "success": SUCCESS,
        "failure": FAILURE,
        "suspend": StackYield.SUSPEND,
        "finish": StackYield.RETURN,
        "start": StackState.START,
        "nobody": NOBODY,
        # What it makes, or tells apart.
        "system_message": SystemMessage,
        "envelope": Envelope,
        "message_promise": MessagePromise,
        "notice_stack": NoticeStack,
        "ask_stack": AskStack,
        "stack_state": StackState,
        # What it leaves to Python.
        "ask": Address.ask,
        "make_stack": bare_stack,
        "fail": handlers.fail,
        "go_async": handlers.go_async,
        "end": handlers.end,
        "receive_reply": engine.receive_reply,
        "after_resume": engine.switch_state,
        "fail_stack": engine.fail_stack,
        "finished": engine.finished,
        "advance": CoroutineState.wait_for,
        "check_reply": checked_reply,
        # Whom it asks to complain.
        "no_answer": no_answer,
        "refuse_finish": refuse_finish,
        "refuse_suspend": refuse_suspend,
    }
)
