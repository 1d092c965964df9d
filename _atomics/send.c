/* The native lane, first half: sending and asking. See lane.c for what this is.
 *
 *     address.notice / address.ask -> mailbox -> WAITING? -> READY -> queue -> wake the owner
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

static void ring(SeatBase *seat)
{
    bool wrapped;
    otv_bell_ring(&((Bell *)seat->bell)->bell);
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
    OTV_LINGER(); /* READY and in no queue: whoever closes meanwhile does not find it */
    if (seat->rings != NULL)
        return pool_submit(seat, (PyObject *)house);
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

/* Whether what is sent there is handled on another thread; in a pool, whether it may be. A matter of
 * speed only. */
static inline bool crosses(HouseBase *house)
{
    SeatBase *seat = (SeatBase *)house->scheduler;
    return this_seat != (PyObject *)seat && (this_seat == NULL || seat->workers != 1);
}

static inline PyObject *ref_for(HouseBase *house, PyObject *message)
{
    return crosses(house) ? otv_shared_ref(message) : Py_NewRef(message);
}

static inline int house_notice(HouseBase *house, PyObject *message)
{
    return ready_if(house_post(&house->cell, BOX_notice, ref_for(house, message)), house);
}

/* Takes the reference to the envelope over. */
static inline int house_ask(HouseBase *house, PyObject *envelope)
{
    return ready_if(house_post(&house->cell, BOX_ask, envelope), house);
}

/* The eager priority is set before the house is queued. */
static int house_answer(HouseBase *house, PyObject *ids, PyObject *reply)
{
    PyObject *item = PyTuple_New(2);
    if (item == NULL)
        return -1;
    PyTuple_SET_ITEM(item, 0, ref_for(house, ids));
    PyTuple_SET_ITEM(item, 1, ref_for(house, reply));
    int won = house_post(&house->cell, BOX_reply, crosses(house) ? otv_handed_over(item) : item);
    if (box_size(house, BOX_reply) > ((SeatBase *)house->scheduler)->high_replies)
        atomic_store_explicit(&house->cell.high_priority, 1, memory_order_relaxed);
    return ready_if(won, house);
}

/* An answer to whoever asked: a house, or somebody outside. */
static int answer(PyObject *asker, long long number, PyObject *reply)
{
    PyObject *id = PyLong_FromLongLong(number);
    int failed = -1;
    if (id != NULL) {
        if (PyObject_TypeCheck(asker, house_base_type))
            failed = settled((HouseBase *)asker) < 0
                ? -1 : house_answer((HouseBase *)asker, id, reply);
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

/* The house behind an address. The collector may have taken it away already, if an object that is
 * deleted with the address sends something from its __del__. */
static HouseBase *house_of(AddressBase *address)
{
    if (address->house == NULL)
        PyErr_SetString(PyExc_RuntimeError, "this address leads to no actor (any more)");
    return (HouseBase *)address->house;
}

/* Address.ask(message, future=None) */
static PyObject *AddressBase_ask(AddressBase *self, PyObject *const *args, Py_ssize_t n,
                                 PyObject *names)
{
    HouseBase *house = house_of(self);
    if (house == NULL)
        return NULL;
    StackBase *stack = NULL;
    PyObject *future = NULL;
    bool usual = n == 1 || (n == 2 && Py_TYPE(args[1]) == (PyTypeObject *)known.message_promise);
    if (names == NULL && usual && house->plain && (stack = running_stack()) != NULL
        && stack->house != NULL
        && PyObject_TypeCheck(stack->house, house_base_type) && stack->house != self->house) {
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
            envelope->asker = ref_for(house, (PyObject *)asker);
            envelope->message = ref_for(house, args[0]);
            envelope->message_id = number;
            if (house_ask(house, crosses(house) ? otv_handed_over((PyObject *)envelope)
                                                : (PyObject *)envelope) < 0)
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
    HouseBase *house = house_of(self);
    if (house == NULL)
        return NULL;
    if (PyObject_TypeCheck(message, (PyTypeObject *)known.system_message))
        return call_method(house, "control", message);
    if (!house->plain)
        return call_method(house, "notice", message);
    if (house_notice(house, message) < 0)
        return NULL;
    Py_RETURN_NONE;
}
