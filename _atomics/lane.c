/* The native lane: a message's way through the house, in C, for the messages that are most common.
 *
 *     send   address.notice / address.ask -> mailbox -> WAITING? -> READY -> queue -> wake the owner
 *     run    queue -> SCHEDULED -> RUNNING -> dispatch -> handler -> READY again, or WAITING and look
 *
 * This is the same walk as in Python (house/house.py, house/handlers.py, house/engine.py,
 * schedule/manager.py, address.py), in the same order, step by step; there it is explained, and
 * there the explorer searches its interleavings. Here it only has to be short. Whatever is not
 * common is left to the Python functions that lane_connect has been given: a bounded mailbox, a
 * barrier or batch, a stopped actor, system messages, events, errors, timeouts, pooled stacks.
 *
 * OTAVIA_FT_LANE=python switches this file off; the tests run both ways.
 */

static PyTypeObject *context_base_type, *seat_base_type, *plan_base_type;

enum {
    SYSTEM_BIT = 1 << BOX_system,
    REPLY_BIT = 1 << BOX_reply,
    EXCEPTION_BIT = 1 << BOX_exception,
    ASK_BIT = 1 << BOX_ask,
    NOTICE_BIT = 1 << BOX_notice,
    EVENT_BIT = 1 << BOX_event,
    EVERYTHING = (1 << BOXES) - 1,
    IN_BARRIER = EVERYTHING & ~(ASK_BIT | NOTICE_BIT),
};

enum { AWAKE, ASLEEP, NOTIFIED }; /* parking.py */

static inline otv_cell *cell_of(PyObject *atomic_int)
{
    return &((AtomicInt *)atomic_int)->cell;
}

static PyObject *seat_of(PyObject *thread)
{
    bool ours = PyObject_TypeCheck(thread, context_base_type);
    return ours ? ((ContextBase *)thread)->seat : NULL;
}

static int call_and_drop(PyObject *result)
{
    Py_XDECREF(result);
    return result == NULL ? -1 : 0;
}

/* A method with one argument, whatever that is. (CallMethod would take a tuple apart.) For what is
 * rare. */
static PyObject *call_method(void *self, const char *name, void *argument)
{
    PyObject *method = PyObject_GetAttrString((PyObject *)self, name);
    PyObject *result = NULL;
    if (method != NULL) {
        result = argument != NULL ? PyObject_CallOneArg(method, (PyObject *)argument)
                                  : PyObject_CallNoArgs(method);
        Py_DECREF(method);
    }
    return result;
}

static int settled(HouseBase *house);

/* ---- sending: any thread ------------------------------------------------------------------- */

/* Bell.ring. Nobody sleeps on a bell that is closed, so nobody is here then. A bell that cannot
 * take another ring rings already. */
static void ring(SeatBase *seat)
{
    static const uint64_t once = 1;
    bool wrapped;
    while (write((int)seat->bell, &once, sizeof once) < 0 && errno == EINTR)
        ;
    otv_get_and_add(cell_of(seat->wakeups), 1, &wrapped);
}

/* HouseManager.wake_owner. The owner itself need not be woken; for others it is Parker.wake, an
 * exchange for the reason given there. */
static int seat_wake_owner(SeatBase *seat)
{
    if (this_seat != (PyObject *)seat
        && otv_get_and_set(cell_of(seat->flag), NOTIFIED) == ASLEEP)
        ring(seat);
    /* Pairs with close(): either it sees what was just queued, or we see that it is closed. */
    if (otv_load_ordered(cell_of(seat->closed)))
        return call_and_drop(call_method(seat, "bury", NULL));
    return 0;
}

/* HouseManager.ready: queue the house, call a thief if there is much, wake the owner. */
static int seat_ready(SeatBase *seat, HouseBase *house)
{
    if (seat->business == NULL || ((PlanBase *)house->plan)->channels)
        return call_and_drop(call_method(seat, "queue_house", house));
    int64_t waiting = queue_enqueue((HouseQueue *)seat->business, house);
    bool wrapped;
    /* Adding zero, not a load: the second half of crew.py's handshake. */
    if (waiting > seat->steal_floor && otv_get_and_add(cell_of(seat->asleep), 0, &wrapped) > 0
        && call_and_drop(call_method(seat, "call_thief", NULL)) < 0)
        return -1;
    return seat_wake_owner(seat);
}

static inline int ready_if(int won, HouseBase *house)
{
    return won > 0 ? seat_ready((SeatBase *)house->scheduler, house) : won;
}

static inline int house_notice(HouseBase *house, PyObject *message)
{
    return ready_if(house_post(&house->cell, BOX_notice, message), house);
}

static inline int house_ask(HouseBase *house, PyObject *envelope)
{
    return ready_if(house_post(&house->cell, BOX_ask, envelope), house);
}

/* The eager priority is set before the house is queued. */
static int house_answer(HouseBase *house, PyObject *ids, PyObject *reply)
{
    PyObject *item = PyTuple_Pack(2, ids, reply);
    if (item == NULL)
        return -1;
    int won = house_post(&house->cell, BOX_reply, item);
    Py_DECREF(item);
    if (box_size(house, BOX_reply) > ((SeatBase *)house->scheduler)->high_replies)
        atomic_store_explicit(&house->high_priority, 1, memory_order_relaxed);
    return ready_if(won, house);
}

/* An answer to whoever asked: a house, or somebody outside. */
static int answer(PyObject *asker, long long number, PyObject *reply)
{
    PyObject *id = PyLong_FromLongLong(number);
    int failed = -1;
    if (id != NULL) {
        if (PyObject_TypeCheck(asker, house_base_type))
            failed = house_answer((HouseBase *)asker, id, reply);
        else
            failed = call_and_drop(PyObject_CallMethod(asker, "answer", "OO", id, reply));
        Py_DECREF(id);
    }
    return failed;
}

/* ---- asking: the runner only --------------------------------------------------------------- */

/* The table of what an actor waits for. */
static inline Dispatcher *table_of(HouseBase *house)
{
    bool sound = house->promises != NULL && Py_TYPE(house->promises) == dispatcher_type;
    return sound ? (Dispatcher *)house->promises : NULL;
}

/* House.attach, without its complaints: -1 with no exception set means that Python shall say what
 * is wrong. */
static long long attach(HouseBase *house, StackBase *stack, PromiseBase *promise)
{
    if (is_some(promise->stack) || !is_pending(promise) || stack->done
        || house->promises == known.nobody || table_of(house) == NULL)
        return -1;
    promise->aid = ++house->next_id;
    stack_add_uncompleted(stack, promise);
    return table_push(table_of(house), promise) < 0 ? -1 : promise->aid;
}

/* The stack of the message in hand, borrowed; NULL without an exception: Python shall say why. */
static StackBase *running_stack(void)
{
    ContextBase *context = (ContextBase *)this_thread;
    if (context == NULL || !PyObject_TypeCheck((PyObject *)context, context_base_type))
        return NULL;
    if (!is_some(context->stack)) {
        if (context->bare == NOT_BARE)
            return NULL;
        PyObject *made = PyObject_CallOneArg(known.make_stack, (PyObject *)context);
        if (made == NULL)
            return NULL;
        put_field(&context->stack, made);
    }
    if (!PyObject_TypeCheck(context->stack, stack_base_type))
        return NULL;
    return (StackBase *)context->stack;
}

/* Address.ask(message, future=None) */
static PyObject *AddressBase_ask(AddressBase *self, PyObject *const *args, Py_ssize_t n,
                                 PyObject *names)
{
    HouseBase *house = (HouseBase *)self->house;
    StackBase *stack = NULL;
    PyObject *future = NULL;
    if (names == NULL && (n == 1 || (n == 2 && Py_TYPE(args[1]) == (PyTypeObject *)known.message_promise))
        && house->plain && (stack = running_stack()) != NULL && stack->house != self->house) {
        HouseBase *asker = (HouseBase *)stack->house;
        future = n == 2 ? Py_NewRef(args[1])
                        : PromiseBase_new((PyTypeObject *)known.message_promise, NULL, NULL);
        if (future == NULL)
            return NULL;
        long long number = attach(asker, stack, (PromiseBase *)future);
        if (number >= 0) {
            EnvelopeBase *envelope = new_object(known.envelope);
            if (envelope == NULL)
                goto failed;
            envelope->asker = Py_NewRef((PyObject *)asker);
            envelope->message = Py_NewRef(args[0]);
            envelope->message_id = number;
            int sent = house_ask(house, (PyObject *)envelope);
            Py_DECREF(envelope);
            if (sent < 0)
                goto failed;
            return future;
        }
        Py_DECREF(future);
    }
    if (PyErr_Occurred())
        return NULL;
    /* Rare: a timeout, a first ask, an ask of oneself, a mistake. */
    PyObject *all[8] = {NULL, (PyObject *)self};
    Py_ssize_t given = n + (names != NULL ? PyTuple_GET_SIZE(names) : 0);
    if (given > 6)
        return PyErr_Format(PyExc_TypeError, "ask takes (message, future=None, *, timeout=None)");
    memcpy(all + 2, args, (size_t)given * sizeof(PyObject *));
    return PyObject_Vectorcall(known.ask, all + 1, (size_t)(n + 1) | PY_VECTORCALL_ARGUMENTS_OFFSET,
                               names);
failed:
    Py_DECREF(future);
    return NULL;
}

static PyObject *AddressBase_notice(AddressBase *self, PyObject *message)
{
    HouseBase *house = (HouseBase *)self->house;
    if (PyObject_TypeCheck(message, (PyTypeObject *)known.system_message))
        return call_method(house, "control", message);
    if (!house->plain)
        return call_method(house, "notice", message);
    if (house_notice(house, message) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* ---- running a stack: the runner only ------------------------------------------------------ */

/* engine.fail_stack, with the exception that is set. */
static int fail_stack(ContextBase *context, HouseBase *house, StackBase *stack)
{
    PyObject *error = PyErr_GetRaisedException();
    Py_CLEAR(context->stack); /* a restart hook must not ask on behalf of the stack that failed */
    int failed = call_and_drop(PyObject_CallFunctionObjArgs(
        known.fail_stack, context, house, stack, error, NULL));
    Py_XDECREF(error);
    return failed;
}

/* engine.finished */
static int finish(ContextBase *context, HouseBase *house, StackBase *stack)
{
    stack_drop_completed(stack);
    if (!is_some(stack->uncompleted_head) && house->barrier != (PyObject *)stack
        && !is_some(context->recycle))
        return 0;
    return call_and_drop(PyObject_CallFunctionObjArgs(
        known.finished, context, house, stack, NULL));
}

static inline bool replies(StackBase *stack)
{
    return Py_TYPE(stack) == (PyTypeObject *)known.ask_stack;
}

/* A handler's result as the answer to its ask. -1: the exception is set. */
static int reply_with(StackBase *stack, PyObject *result)
{
    if (PyObject_TypeCheck(result, promise_base_type))
        return call_and_drop(PyObject_CallOneArg(known.check_reply, result));
    stack->done = 1;
    return answer(stack->asker, stack->ask_id, result);
}

/* CoroutineState.advance. 0: suspended or done (see stack->done), -1: the exception is set. */
static int advance(HouseBase *house, StackBase *stack, CoroutineBase *state)
{
    PyObject *item = NULL;
    switch (PyIter_Send(state->coroutine, Py_None, &item)) {
    case PYGEN_RETURN: {
        int failed = 0;
        if (replies(stack))
            failed = reply_with(stack, item);
        else
            stack->done = 1;
        Py_DECREF(item);
        return failed;
    }
    case PYGEN_NEXT:
        if (PyObject_TypeCheck(item, promise_base_type) && is_pending((PromiseBase *)item)
            && ((PromiseBase *)item)->stack == (PyObject *)stack) {
            put_field(&state->awaited, item);
            stack_drop_completed(stack);
            if (stack->state != (PyObject *)state)
                put_field(&stack->state, Py_NewRef((PyObject *)state));
            return 0;
        } else {
            PyObject *result = PyObject_CallFunctionObjArgs(known.advance, state, stack, item, NULL);
            Py_DECREF(item);
            if (result == NULL)
                return -1;
            int failed = 0;
            if (!stack->done)
                failed = call_and_drop(PyObject_CallFunctionObjArgs(
                    known.after_resume, house, stack, result, NULL));
            Py_DECREF(result);
            return failed;
        }
    default:
        return -1;
    }
}

static PyObject *resume_notice_name, *resume_ask_name;

/* engine.run_stack */
static int run_stack(ContextBase *context, HouseBase *house, StackBase *stack)
{
    PlanBase *plan = (PlanBase *)house->plan;
    bool asked = replies(stack);
    int failed;
    put_field(&context->stack, Py_NewRef((PyObject *)stack));
    if ((asked ? plan->short_asks : plan->short_notices)
        && PyObject_TypeCheck(stack->state, coroutine_base_type)) {
        CoroutineBase *state = (CoroutineBase *)Py_NewRef(stack->state);
        failed = advance(house, stack, state);
        Py_DECREF(state);
    } else {
        PyObject *result;
        if (asked || Py_TYPE(stack) == (PyTypeObject *)known.notice_stack) {
            PyObject *args[2] = {stack->actor, (PyObject *)stack};
            result = PyObject_VectorcallMethod(asked ? resume_ask_name : resume_notice_name, args,
                                               2 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
        } else {
            result = call_method(stack, "resume", NULL);
        }
        if (result == NULL) {
            failed = -1;
        } else if (result == known.finish && stack->done) {
            failed = 0;
        } else if (result == known.suspend && is_some(stack->next_state)
                   && is_some(stack->uncompleted_head)) {
            if (stack->state != stack->next_state)
                stack_drop_completed(stack);
            put_field(&stack->state, stack->next_state);
            stack->next_state = NULL;
            failed = 0;
        } else {
            failed = call_and_drop(PyObject_CallFunctionObjArgs(
                known.after_resume, house, stack, result, NULL));
        }
        Py_XDECREF(result);
    }
    if (failed)
        failed = fail_stack(context, house, stack);
    else if (stack->done)
        failed = finish(context, house, stack);
    Py_CLEAR(context->stack);
    return failed;
}

/* A stack for the message in hand. */
static StackBase *new_stack(PyObject *type, HouseBase *house, PyObject *content)
{
    StackBase *stack = (StackBase *)StackBase_new((PyTypeObject *)type, NULL, NULL);
    if (stack != NULL) {
        stack->house = Py_NewRef((PyObject *)house);
        stack->actor = Py_XNewRef(house->actor);
        stack->content = Py_NewRef(content);
    }
    return stack;
}

/* ---- dispatch: the runner only ------------------------------------------------------------- */

/* The next message of a mailbox, as Drain gives it: one a step, and none while a system message
 * waits, so that a pill overtakes a backlog after the message in hand. */
static inline PyObject *next_message(HouseBase *house, int box, int64_t *left)
{
    if (*left <= 0 || otv_has_mail(&house->cell.box[BOX_system]))
        return NULL;
    PyObject *message = (PyObject *)otv_pop(&house->cell.box[box]);
    if (message != NULL)
        --*left;
    return message;
}

/* engine.receive_reply, for one reply to one ask. */
static int receive_reply(ContextBase *context, HouseBase *house, PyObject *item)
{
    PyObject *ids = PyTuple_GET_ITEM(item, 0), *reply = PyTuple_GET_ITEM(item, 1);
    PromiseBase *promise = NULL;
    if (PyLong_CheckExact(ids) && table_of(house) != NULL)
        promise = table_pop(table_of(house), PyLong_AsLongLong(ids));
    if (promise == NULL) /* several at once, or nobody waits any more */
        return call_and_drop(PyObject_CallFunctionObjArgs(
            known.receive_reply, context, house, ids, reply, NULL));
    int failed = 0;
    if (is_some(promise->timer))
        failed = call_and_drop(call_method(promise->timer, "cancel", NULL));
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

/* The function for a message: the dict knows most of them, __missing__ finds the others. */
static PyObject *handler_of(PyObject *handlers, PyObject *message)
{
    PyObject *handler;
    if (PyDict_GetItemRef(handlers, (PyObject *)Py_TYPE(message), &handler) == 0)
        handler = PyObject_GetItem(handlers, (PyObject *)Py_TYPE(message));
    return handler;
}

/* handlers.py: call the handler of a message without a stack; one is made should it be wanted.
 * `item` is the notice, or the envelope of an ask; its reference is taken over. */
static int run_bare(ContextBase *context, HouseBase *house, PyObject *actor, PyObject *item,
                    bool asked)
{
    PyObject *message = asked ? ((EnvelopeBase *)item)->message : item;
    PyObject *handler = handler_of(((PlanBase *)house->plan)->handlers, message);
    PyObject *result = NULL;
    int failed;
    put_field(&context->message, item);
    context->bare = asked ? BARE_ASK : BARE_NOTICE;
    if (handler != NULL) {
        PyObject *args[3] = {NULL, actor, message};
        result = PyObject_Vectorcall(handler, args + 1, 2 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
        Py_DECREF(handler);
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
        failed = answer(envelope->asker, envelope->message_id, result);
    }
    Py_XDECREF(result);
    if (failed) {
        PyObject *error = PyErr_GetRaisedException();
        failed = call_and_drop(PyObject_CallFunctionObjArgs(
            known.fail, context, house, error, NULL));
        Py_XDECREF(error);
    }
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

/* House._dispatch for a pass with nothing but replies, asks and notices. */
static int dispatch(ContextBase *context, HouseBase *house, long mail, int64_t *left)
{
    PlanBase *plan = (PlanBase *)house->plan;
    PyObject *actor = Py_NewRef(house->actor); /* a handler may end its actor */
    PyObject *item;
    int failed = 0;
    if (mail & REPLY_BIT)
        while (!failed && (item = next_message(house, BOX_reply, left)) != NULL) {
            failed = receive_reply(context, house, item);
            Py_DECREF(item);
        }
    for (int box = BOX_ask; box <= BOX_notice && !failed; box++) {
        bool asked = box == BOX_ask;
        bool bare = asked ? plan->short_asks : plan->short_notices;
        if (!(mail & (1 << box)))
            continue;
        while (!failed && !is_some(house->barrier)
               && (item = next_message(house, box, left)) != NULL)
            failed = bare ? run_bare(context, house, actor, item, asked)
                          : run_with_stack(context, house, item, asked);
        if (bare) {
            Py_CLEAR(context->message);
            context->bare = NOT_BARE;
        }
    }
    Py_DECREF(actor);
    if (!failed && is_some(context->later) && Py_SIZE(context->later) > 0)
        failed = call_and_drop(call_method(house, "_run_later", context));
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
        atomic_store_explicit(&house->high_priority, high, memory_order_relaxed);
        return house_run_to_ready(&house->cell) < 0 ? -1 : seat_ready(seat, house);
    }
    atomic_store_explicit(&house->high_priority, high, memory_order_relaxed);
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

/* HouseManager.run_state_actors */
static PyObject *SeatBase_run_state_actors(SeatBase *self, PyObject *const *args, Py_ssize_t n)
{
    if (n != 2 || !PyObject_TypeCheck(args[0], context_base_type))
        return PyErr_Format(PyExc_TypeError, "run_state_actors takes (context, deadline)");
    if (self->business == NULL)
        return PyErr_Format(PyExc_RuntimeError, "this seat has no queue: furnish it first");
    ContextBase *context = (ContextBase *)args[0];
    long long deadline = args[1] == Py_None ? -1 : PyLong_AsLongLong(args[1]);
    if (PyErr_Occurred())
        return NULL;
    long long count = 0;
    HouseBase *house;
    while ((house = queue_dequeue((HouseQueue *)self->business)) != NULL) {
        int scheduled = house_try_schedule(&house->cell);
        int failed = scheduled > 0 ? run_turn(house, context) : scheduled;
        Py_DECREF(house);
        if (failed)
            return NULL;
        count++;
        /* A look at the clock costs about as much as a short turn: one look for many turns. */
        if (count % self->stride == 0) {
            if (otv_load(cell_of(self->stopping)))
                break;
            if (deadline >= 0) {
                struct timespec now;
                clock_gettime(CLOCK_MONOTONIC, &now);
                if (now.tv_sec * 1000000000LL + now.tv_nsec >= deadline)
                    break;
            }
        }
    }
    return PyLong_FromLongLong(count);
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

/* ---- the types ----------------------------------------------------------------------------- */

OTV_OBJECT(PlanBase, handlers, handlers)

static PyMemberDef PlanBase_members[] = {
    OBJECT(PlanBase, handlers), TRUTH(PlanBase, channels), TRUTH(PlanBase, special),
    TRUTH(PlanBase, short_asks), TRUTH(PlanBase, short_notices),
    {NULL},
};

static PyType_Slot PlanBase_slots[] = {
    {Py_tp_members, PlanBase_members}, OTV_GC_SLOTS(PlanBase), {0, NULL},
};

static PyType_Spec PlanBase_spec = {
    "otavia_ft.lane.PlanBase", sizeof(PlanBase), 0, OTV_FLAGS, PlanBase_slots,
};

OTV_OBJECT(ContextBase, house, seat)

static PyMemberDef ContextBase_members[] = {
    OBJECT(ContextBase, house), OBJECT(ContextBase, stack), OBJECT(ContextBase, message),
    OBJECT(ContextBase, later), OBJECT(ContextBase, recycle), OBJECT(ContextBase, seat),
    NUMBER(ContextBase, turns), NUMBER(ContextBase, messages), NUMBER(ContextBase, budget),
    {"bare", T_BYTE, offsetof(ContextBase, bare), 0, NULL},
    {NULL},
};

static PyType_Slot ContextBase_slots[] = {
    {Py_tp_members, ContextBase_members}, OTV_GC_SLOTS(ContextBase), {0, NULL},
};

static PyType_Spec ContextBase_spec = {
    "otavia_ft.lane.ContextBase", sizeof(ContextBase), 0, OTV_FLAGS, ContextBase_slots,
};

OTV_OBJECT(SeatBase, business, wakeups)

/* Everything that the lane follows as a pointer is checked here, once. */
static PyObject *SeatBase_furnish(SeatBase *self, PyObject *args)
{
    PyObject *business, *flag, *asleep, *closed, *stopping, *wakeups;
    if (!PyArg_ParseTuple(args, "O!O!O!O!O!O!LLLLL:furnish", house_queue_type, &business,
                          atomic_int_type, &flag, atomic_int_type, &asleep, atomic_int_type,
                          &closed, atomic_int_type, &stopping, atomic_int_type, &wakeups,
                          &self->bell, &self->steal_floor, &self->stride, &self->high_replies,
                          &self->high_events))
        return NULL;
    put_field(&self->flag, Py_NewRef(flag));
    put_field(&self->asleep, Py_NewRef(asleep));
    put_field(&self->closed, Py_NewRef(closed));
    put_field(&self->stopping, Py_NewRef(stopping));
    put_field(&self->wakeups, Py_NewRef(wakeups));
    put_field(&self->business, Py_NewRef(business));
    Py_RETURN_NONE;
}

static PyMethodDef SeatBase_methods[] = {
    {"furnish", (PyCFunction)SeatBase_furnish, METH_VARARGS,
     "furnish(business, flag, asleep, closed, stopping, wakeups, bell, steal_floor, stride, "
     "high_replies, high_events): what the native lane needs of a manager."},
    {"ready", (PyCFunction)SeatBase_ready, METH_O,
     "Queue a house that has become READY; wake its owner, and a thief if there is much."},
    {"wake_owner", (PyCFunction)SeatBase_wake_owner, METH_NOARGS,
     "Something was queued: end the owner's sleep, unless this is the owner."},
    {"run_state_actors", FASTCALL(SeatBase_run_state_actors), METH_FASTCALL,
     "run_state_actors(context, deadline): until there are none or time is up; how many ran."},
    {NULL},
};

static PyType_Slot SeatBase_slots[] = {
    {Py_tp_methods, SeatBase_methods}, OTV_GC_SLOTS(SeatBase), {0, NULL},
};

static PyType_Spec SeatBase_spec = {
    "otavia_ft.lane.SeatBase", sizeof(SeatBase), 0, OTV_FLAGS, SeatBase_slots,
};

OTV_OBJECT(AddressBase, house, house)

static int AddressBase_init(AddressBase *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"house", NULL};
    PyObject *house;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!:ActorAddress", names, house_base_type,
                                     &house))
        return -1;
    if (settled((HouseBase *)house) < 0)
        return -1;
    if (self->house == NULL) /* for life: senders follow the pointer without a reference */
        self->house = Py_NewRef(house);
    return 0;
}

static PyMethodDef AddressBase_methods[] = {
    {"notice", (PyCFunction)AddressBase_notice, METH_O,
     "Send a message that wants no answer. Any object will do."},
    {"ask", FASTCALL(AddressBase_ask), METH_FASTCALL | METH_KEYWORDS,
     "Ask from inside an actor. Await the future, or suspend the stack on a state with it."},
    {NULL},
};

static PyMemberDef AddressBase_members[] = {
    {"house", T_OBJECT, offsetof(AddressBase, house), READONLY, "Who gets the next notice."},
    {NULL},
};

static PyType_Slot AddressBase_slots[] = {
    {Py_tp_init, AddressBase_init}, {Py_tp_methods, AddressBase_methods},
    {Py_tp_members, AddressBase_members}, OTV_GC_SLOTS(AddressBase), {0, NULL},
};

static PyType_Spec AddressBase_spec = {
    "otavia_ft.lane.AddressBase", sizeof(AddressBase), 0, OTV_FLAGS, AddressBase_slots,
};

/* HouseBase */

/* House.__init__'s fields; the plan and the seat are followed as pointers from now on. */
static PyObject *HouseBase_settle(HouseBase *self, PyObject *args)
{
    PyObject *actor, *plan, *seat, *promises;
    if (!PyArg_ParseTuple(args, "OO!O!O!L:settle", &actor, plan_base_type, &plan, seat_base_type,
                          &seat, dispatcher_type, &promises, &self->id))
        return NULL;
    put_field(&self->actor, Py_NewRef(actor));
    put_field(&self->plan, Py_NewRef(plan));
    put_field(&self->scheduler, Py_NewRef(seat));
    put_field(&self->promises, Py_NewRef(promises));
    self->plain = 1;
    Py_RETURN_NONE;
}

/* Nothing below may follow the pointers of a house that was never settled. */
static int settled(HouseBase *house)
{
    if (house->scheduler != NULL)
        return 0;
    PyErr_SetString(PyExc_RuntimeError, "this house has no actor and no scheduler yet");
    return -1;
}

static int HouseBase_traverse(HouseBase *self, visitproc visit, void *arg)
{
    for (PyObject **field = &self->actor; field <= &self->next_house; field++)
        Py_VISIT(*field);
    return HouseCell_traverse(&self->cell, visit, arg);
}

static int HouseBase_clear(HouseBase *self)
{
    for (PyObject **field = &self->actor; field <= &self->next_house; field++)
        if (field != &self->plan && field != &self->scheduler) /* for life: see settle */
            Py_CLEAR(*field);
    return HouseCell_clear(&self->cell);
}

static void HouseBase_dealloc(HouseBase *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_TRASHCAN_BEGIN(self, HouseBase_dealloc)
    HouseBase_clear(self);
    Py_CLEAR(self->plan);
    Py_CLEAR(self->scheduler);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
    Py_TRASHCAN_END
}

static PyObject *HouseBase_notice(HouseBase *self, PyObject *message)
{
    if (settled(self) < 0 || house_notice(self, message) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *HouseBase_ask(HouseBase *self, PyObject *envelope)
{
    if (!PyObject_TypeCheck(envelope, (PyTypeObject *)known.envelope))
        return PyErr_Format(PyExc_TypeError, "ask takes an Envelope, not %.80R", envelope);
    if (settled(self) < 0 || house_ask(self, envelope) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *HouseBase_answer(HouseBase *self, PyObject *const *args, Py_ssize_t n)
{
    if (n != 2)
        return PyErr_Format(PyExc_TypeError, "answer takes (ids, reply), got %zd arguments", n);
    if (settled(self) < 0 || house_answer(self, args[0], args[1]) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *HouseBase_work(HouseBase *self, PyObject *const *args, Py_ssize_t n)
{
    if (n != 2 || !PyObject_TypeCheck(args[0], context_base_type))
        return PyErr_Format(PyExc_TypeError, "work takes (context, left)");
    long long left = PyLong_AsLongLong(args[1]);
    if ((left == -1 && PyErr_Occurred()) || settled(self) < 0)
        return NULL;
    return PyLong_FromLongLong(house_work(self, (ContextBase *)args[0], left));
}

static PyObject *HouseBase_run_turn(HouseBase *self, PyObject *context)
{
    if (!PyObject_TypeCheck(context, context_base_type))
        return PyErr_Format(PyExc_TypeError, "run_turn takes a context, not %.80R", context);
    if (settled(self) < 0 || run_turn(self, (ContextBase *)context) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *HouseBase_get_high_priority(HouseBase *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(atomic_load_explicit(&self->high_priority, memory_order_relaxed));
}

static int HouseBase_set_high_priority(HouseBase *self, PyObject *value, void *Py_UNUSED(closure))
{
    int high = value == NULL ? -1 : PyObject_IsTrue(value);
    if (high < 0)
        return -1;
    atomic_store_explicit(&self->high_priority, (char)high, memory_order_relaxed);
    return 0;
}

static PyMethodDef HouseBase_methods[] = {
    {"settle", (PyCFunction)HouseBase_settle, METH_VARARGS, "settle(actor, plan, scheduler, promises, id)"},
    {"notice", (PyCFunction)HouseBase_notice, METH_O, "Deliver a notice. Any thread."},
    {"ask", (PyCFunction)HouseBase_ask, METH_O, "Deliver an ask's envelope. Any thread."},
    {"answer", FASTCALL(HouseBase_answer), METH_FASTCALL,
     "answer(ids, reply): deliver a reply to this asker. Any thread."},
    {"work", FASTCALL(HouseBase_work), METH_FASTCALL,
     "work(context, left): handle messages until there are none or the budget is used up."},
    {"run_turn", (PyCFunction)HouseBase_run_turn, METH_O,
     "Handle messages up to the thread's budget."},
    {NULL},
};

static PyMemberDef HouseBase_members[] = {
    OBJECT(HouseBase, actor), OBJECT(HouseBase, barrier), OBJECT(HouseBase, stop_reason),
    OBJECT(HouseBase, channel_futures), OBJECT(HouseBase, promises), OBJECT(HouseBase, next_house),
    {"plan", T_OBJECT, offsetof(HouseBase, plan), READONLY, NULL},
    {"scheduler", T_OBJECT, offsetof(HouseBase, scheduler), READONLY, NULL},
    OBJECT(HouseBase, channel_promises), OBJECT(HouseBase, timers), OBJECT(HouseBase, family),
    NUMBER(HouseBase, id), NUMBER(HouseBase, next_id), TRUTH(HouseBase, load_balanced),
    TRUTH(HouseBase, plain),
    {NULL},
};

static PyGetSetDef HouseBase_getset[] = {
    {"high_priority", (getter)HouseBase_get_high_priority, (setter)HouseBase_set_high_priority,
     NULL, NULL},
    {NULL},
};

static PyType_Slot HouseBase_slots[] = {
    {Py_tp_methods, HouseBase_methods},
    {Py_tp_members, HouseBase_members}, {Py_tp_getset, HouseBase_getset}, OTV_GC_SLOTS(HouseBase),
    {0, NULL},
};

static PyType_Spec HouseBase_spec = {
    "otavia_ft.lane.HouseBase", sizeof(HouseBase), 0, OTV_FLAGS, HouseBase_slots,
};
