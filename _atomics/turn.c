/* The native lane, second half: a turn. See lane.c for what this is.
 *
 *     queue -> SCHEDULED -> RUNNING -> dispatch -> handler -> READY again, or WAITING and look
 */

/* The next message of a mailbox, as Drain gives it: one a step, and none while a system message
 * waits, so that a pill overtakes a backlog after the message in hand. */
static inline PyObject *next_message(HouseBase *house, int box, int64_t *left)
{
    if (*left <= 0 || otv_has_mail(mailbox_of(&house->cell, BOX_system)))
        return NULL;
    OTV_SEE(mailbox, box);
    PyObject *message = (PyObject *)otv_pop(mailbox_of(&house->cell, box));
    if (message != NULL)
        --*left;
    return message;
}

/* engine.receive_reply, for one reply to one ask. */
static int receive_reply(ContextBase *context, HouseBase *house, PyObject *item)
{
    if (!PyTuple_Check(item) || PyTuple_GET_SIZE(item) != 2) {
        PyErr_Format(PyExc_TypeError, "a reply is a pair (ids, reply), not %.80R", item);
        return -1;
    }
    PyObject *ids = PyTuple_GET_ITEM(item, 0), *reply = PyTuple_GET_ITEM(item, 1);
    PromiseBase *promise = NULL;
    long long aid;
    if (PyLong_CheckExact(ids) && table_of(house) != NULL) {
        if (number_of(ids, &aid) < 0)
            return -1;
        promise = table_pop(table_of(house), aid);
    }
    if (promise == NULL) /* several at once, or nobody waits any more */
        return call_and_drop(PyObject_CallFunctionObjArgs(
            known.receive_reply, context, house, ids, reply, NULL));
    int failed = 0;
    if (is_some(promise->timer)) {
        failed = call_and_drop(call_method(promise->timer, "cancel", NULL));
        put_field(&promise->timer, Py_NewRef(Py_None));
    }
    put_field(&promise->outcome, Py_NewRef(known.success));
    put_field(&promise->value, Py_NewRef(reply));
    StackBase *stack = (StackBase *)promise->stack;
    if (!failed && is_some((PyObject *)stack)) {
        Py_INCREF(stack);
        stack_move_completed(stack, promise);
        int resumable = 1;
        if (is_some(stack->uncompleted_head)) {
            PyObject *answer = call_method(stack->state, "resumable", NULL);
            resumable = answer == NULL ? -1 : PyObject_IsTrue(answer);
            Py_XDECREF(answer);
        }
        if (resumable < 0) /* a state is user code too */
            failed = fail_stack(context, house, stack);
        else if (resumable)
            failed = run_stack(context, house, stack);
        Py_DECREF(stack);
    }
    Py_DECREF(promise);
    return failed;
}

/* A pass's last message: the next one is often of the same class, and has the same handler. */
typedef struct {
    PyTypeObject *type; /* borrowed from the plan's dict, which forgets no class that it has met */
    PyObject *handler;
} route;

/* The function for a message, borrowed: the dict knows most of them, __missing__ finds the others. */
static PyObject *handler_of(PyObject *handlers, PyObject *message, route *last)
{
    PyTypeObject *type = Py_TYPE(message);
    if (type == last->type)
        return last->handler;
    last->type = NULL;
    Py_CLEAR(last->handler);
    if (handlers == NULL) {
        PyErr_SetString(PyExc_TypeError, "this plan has no handlers");
        return NULL;
    }
    if (PyDict_GetItemRef(handlers, (PyObject *)type, &last->handler) == 0)
        last->handler = PyObject_GetItem(handlers, (PyObject *)type);
    if (last->handler != NULL)
        last->type = type;
    return last->handler;
}

/* handlers.py: call the handler of a message without a stack; one is made should it be wanted.
 * `item` is the notice, or the envelope of an ask; its reference is taken over. */
static int run_bare(ContextBase *context, HouseBase *house, PyObject *actor, PyObject *item,
                    bool asked, route *last)
{
    PyObject *message = asked ? ((EnvelopeBase *)item)->message : item;
    PyObject *handler = handler_of(((PlanBase *)house->plan)->handlers, message, last);
    PyObject *result = NULL;
    int failed;
    put_field(&context->message, Py_NewRef(item)); /* a turn inside the handler may change it */
    context->bare = asked ? BARE_ASK : BARE_NOTICE;
    if (handler != NULL) {
        PyObject *args[3] = {NULL, actor, message};
        result = PyObject_Vectorcall(handler, args + 1, 2 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    }
    if (result == NULL) {
        failed = -1;
    } else if (PyCoro_CheckExact(result)) {
        failed = call_and_drop(PyObject_CallFunctionObjArgs(
            known.go_async, context, house, result, NULL));
    } else if (is_some(context->stack)) {
        failed = call_and_drop(PyObject_CallFunctionObjArgs(
            known.end, context, house, asked ? result : NULL, NULL));
    } else if (!asked) {
        failed = 0;
    } else if (PyObject_TypeCheck(result, promise_base_type)) {
        failed = call_and_drop(PyObject_CallOneArg(known.check_reply, result));
    } else {
        EnvelopeBase *envelope = (EnvelopeBase *)item;
        context->bare = NOT_BARE; /* a callback of an outside ask's future is no handler */
        failed = answer(envelope->asker, envelope->message_id, result);
    }
    if (failed) {
        PyObject *error = PyErr_GetRaisedException();
        failed = call_and_drop(PyObject_CallFunctionObjArgs(
            known.fail, context, house, error, NULL));
        Py_XDECREF(error);
    }
    /* Handled. Code that runs from now on (the message's __del__, say) has no stack to ask on. */
    context->bare = NOT_BARE;
    Py_XDECREF(result);
    Py_DECREF(item);
    return failed;
}

static int run_with_stack(ContextBase *context, HouseBase *house, PyObject *item, bool asked)
{
    EnvelopeBase *envelope = (EnvelopeBase *)item;
    StackBase *stack = asked ? new_stack(known.ask_stack, house, envelope->message)
                             : new_stack(known.notice_stack, house, item);
    int failed = -1;
    if (stack != NULL) {
        if (asked) {
            stack->asker = Py_NewRef(envelope->asker);
            stack->ask_id = envelope->message_id;
        }
        failed = run_stack(context, house, stack);
        Py_DECREF(stack);
    }
    Py_DECREF(item);
    return failed;
}

/* Anybody can put anything into a mailbox: what is no envelope is refused, not followed. */
static bool is_envelope(PyObject *item)
{
    EnvelopeBase *envelope = (EnvelopeBase *)item;
    if (PyObject_TypeCheck(item, (PyTypeObject *)known.envelope) && envelope->asker != NULL
        && envelope->message != NULL)
        return true;
    PyErr_Format(PyExc_TypeError, "an ask comes in an Envelope, not as %.80R", item);
    return false;
}

/* The next ask or notice, to the end of its handler; its reference is taken over. */
static int run_message(ContextBase *context, HouseBase *house, PyObject *actor, PyObject *item,
                       bool asked, route *last)
{
    PlanBase *plan = (PlanBase *)house->plan;
    if (asked && !is_envelope(item)) {
        Py_DECREF(item);
        return -1;
    }
    return (asked ? plan->short_asks : plan->short_notices)
        ? run_bare(context, house, actor, item, asked, last)
        : run_with_stack(context, house, item, asked);
}

/* House._dispatch for a pass with nothing but replies, asks and notices. */
static int dispatch(ContextBase *context, HouseBase *house, long mail, int64_t *left)
{
    PyObject *actor = Py_NewRef(house->actor); /* a handler may end its actor */
    PyObject *item;
    route last = {NULL, NULL};
    int failed = 0;
    OTV_SEE(pass);
    if (mail & REPLY_BIT)
        while (!failed && (item = next_message(house, BOX_reply, left)) != NULL) {
            failed = receive_reply(context, house, item);
            Py_DECREF(item);
        }
    for (int box = BOX_ask; box <= BOX_notice && !failed; box++) {
        bool asked = box == BOX_ask;
        if (!(mail & (1 << box)))
            continue;
        while (!failed && !is_some(house->barrier)
               && (item = next_message(house, box, left)) != NULL)
            failed = run_message(context, house, actor, item, asked, &last);
        Py_CLEAR(context->message);
    }
    Py_XDECREF(last.handler);
    Py_DECREF(actor);
    return failed;
}

static inline bool has_items(PyObject *list)
{
    return is_some(list) && PyList_GET_SIZE(list) > 0;
}

/* Whether this pass is one of the common ones. */
static bool common(ContextBase *context, HouseBase *house, long mail)
{
    PlanBase *plan = (PlanBase *)house->plan;
    return house->plain && house->actor != NULL && !(mail & (SYSTEM_BIT | EXCEPTION_BIT | EVENT_BIT))
        && !is_some(house->stop_reason) && !is_some(house->channel_futures)
        && !plan->special && !is_some(context->recycle);
}

/* House._dispatch or House._dispatch_channel_futures, in Python: what is left of the budget. */
static int dispatch_in_python(ContextBase *context, HouseBase *house, long mail, int64_t *left)
{
    PyObject *result = mail
        ? PyObject_CallMethod((PyObject *)house, "_dispatch", "OlL", context, mail, (long long)*left)
        : PyObject_CallMethod((PyObject *)house, "_dispatch_channel_futures", "OL", context,
                              (long long)*left);
    if (result == NULL)
        return -1;
    *left = PyLong_AsLongLong(result);
    Py_DECREF(result);
    return PyErr_Occurred() ? -1 : 0;
}

/* House.work */
static int64_t house_work(HouseBase *house, ContextBase *context, int64_t left)
{
    put_field(&context->house, Py_NewRef((PyObject *)house));
    int failed = 0;
    while (left > 0 && !failed) {
        long mail = house_mail(&house->cell);
        if (is_some(house->barrier))
            mail &= IN_BARRIER;
        if (mail == 0 && !has_items(house->channel_futures))
            break;
        if (mail != 0 && common(context, house, mail))
            failed = dispatch(context, house, mail, &left);
        else
            failed = dispatch_in_python(context, house, mail, &left);
        if (!failed && is_some(context->later) && Py_SIZE(context->later) > 0)
            failed = call_and_drop(call_method(house, "run_later", context));
    }
    if (failed) { /* the engine catches all; this is the net */
        PyObject *error = PyErr_GetRaisedException();
        if (call_and_drop(PyObject_CallMethod((PyObject *)house, "log_failure", "sO",
                                              "could not finish its turn", error)) < 0)
            PyErr_Clear();
        Py_XDECREF(error);
        left = 0; /* whatever it is, others come first */
    }
    Py_CLEAR(context->house);
    return left;
}

static bool has_mail(HouseBase *house, long mask)
{
    return (house_mail(&house->cell) & mask) != 0;
}

/* House._complete: READY again, or WAITING and look once more. */
static int complete(HouseBase *house)
{
    SeatBase *seat = (SeatBase *)house->scheduler;
    long mask = is_some(house->barrier) ? IN_BARRIER : EVERYTHING;
    bool high = table_of(house) == NULL || table_of(house)->count == 0;
    if (has_items(house->channel_futures) || has_mail(house, mask)) {
        high = high || box_size(house, BOX_reply) > seat->high_replies
            || box_size(house, BOX_event) > seat->high_events;
        atomic_store_explicit(&house->cell.high_priority, high, memory_order_relaxed);
        return house_run_to_ready(&house->cell) < 0 ? -1 : seat_ready(seat, house);
    }
    atomic_store_explicit(&house->cell.high_priority, high, memory_order_relaxed);
    OTV_LINGER(); /* mail that comes now is for the second look */
    if (house_run_to_waiting(&house->cell) < 0)
        return -1;
    if (has_mail(house, mask))
        return ready_if(house_try_ready(&house->cell), house);
    return 0;
}

static int run_turn(HouseBase *house, ContextBase *context)
{
    int entered = house_try_run(&house->cell);
    if (entered <= 0)
        return entered; /* 0: a stale entry, somebody else has run it */
    context->turns++;
    int64_t left = house_work(house, context, context->budget);
    context->messages += context->budget - left;
    return complete(house);
}

/* HouseManager.run_state_actors; a deadline below zero is none. */
static PyObject *run_state_actors(SeatBase *self, ContextBase *context, long long deadline)
{
    long long count = 0;
    HouseBase *house;
    otv_cell *stopping = cell_of(self->stopping);
    while (!otv_load(stopping)
           && (house = queue_dequeue((HouseQueue *)self->business)) != NULL) {
        int scheduled = house_try_schedule(&house->cell);
        int failed = scheduled > 0 ? run_turn(house, context) : scheduled;
        Py_DECREF(house);
        if (failed)
            return NULL;
        count++;
        if (deadline >= 0 && count % self->stride == 0 && otv_monotonic_ns() >= deadline) {
            queue_end_slice((HouseQueue *)self->business);
            break;
        }
    }
    return PyLong_FromLongLong(count);
}

/* (context, nanoseconds or None) of the two methods below. */
static ContextBase *context_and_time(SeatBase *self, PyObject *const *args, Py_ssize_t n,
                                     long long *time)
{
    if (n != 2 || !PyObject_TypeCheck(args[0], context_base_type)) {
        PyErr_SetString(PyExc_TypeError, "this takes (context, nanoseconds or None)");
        return NULL;
    }
    if (self->business == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "this seat has no queue: furnish it first");
        return NULL;
    }
    *time = args[1] == Py_None ? -1 : PyLong_AsLongLong(args[1]);
    return PyErr_Occurred() ? NULL : (ContextBase *)args[0];
}

static PyObject *SeatBase_run_state_actors(SeatBase *self, PyObject *const *args, Py_ssize_t n)
{
    long long deadline;
    ContextBase *context = context_and_time(self, args, n, &deadline);
    return context == NULL ? NULL : run_state_actors(self, context, deadline);
}

static PyObject *SeatBase_ready(SeatBase *self, PyObject *house)
{
    if (checked_house(house) < 0 || settled((HouseBase *)house) < 0
        || seat_ready(self, (HouseBase *)house) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *SeatBase_wake_owner(SeatBase *self, PyObject *Py_UNUSED(ignored))
{
    if (self->business == NULL)
        return PyErr_Format(PyExc_RuntimeError, "this seat has no queue: furnish it first");
    if (seat_wake_owner(self) < 0)
        return NULL;
    Py_RETURN_NONE;
}
