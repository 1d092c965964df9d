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
 * The walk is in send.c, turn.c and resume.c, and in pool.c where the pool scheduler differs; this
 * file makes Python types of it. OTAVIA_FT_LANE=python switches all of it off; the tests run both
 * ways.
 */

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

static int SeatBase_traverse(SeatBase *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    for (PyObject **field = &self->rings; field <= &self->wakeups; field++)
        Py_VISIT(*field);
    return plot_traverse(self->plot, visit, arg);
}

static int SeatBase_clear(SeatBase *self)
{
    for (PyObject **field = &self->rings; field <= &self->wakeups; field++)
        Py_CLEAR(*field);
    plot_free(self);
    return 0;
}

OTV_DEALLOC(SeatBase)

/* Everything that the lane follows as a pointer is checked here, once. */
static PyObject *SeatBase_furnish(SeatBase *self, PyObject *args)
{
    PyObject *business, *mounting, *channels, *events, *bell;
    PyObject *flag, *asleep, *closed, *stopping, *wakeups;
    if (self->business != NULL || self->closed != NULL) /* others follow these without a reference */
        return PyErr_Format(PyExc_RuntimeError, "this seat is furnished already");
    if (!PyArg_ParseTuple(args, "O!O!O!O!O!O!O!O!O!O!LLLL:furnish", house_queue_type, &business,
                          house_queue_type, &mounting, house_queue_type, &channels,
                          house_cell_type, &events, bell_type, &bell, atomic_int_type, &flag,
                          atomic_int_type, &asleep, atomic_int_type, &closed, atomic_int_type,
                          &stopping, atomic_int_type, &wakeups, &self->steal_floor,
                          &self->stride, &self->high_replies, &self->high_events))
        return NULL;
    if (self->stride < 1)
        return PyErr_Format(PyExc_ValueError, "a stride is 1 at least, not %lld", self->stride);
    put_field(&self->mounting, Py_NewRef(mounting));
    put_field(&self->channels, Py_NewRef(channels));
    put_field(&self->events, Py_NewRef(events));
    put_field(&self->bell, Py_NewRef(bell));
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
     "furnish(business, mounting, channels, events, bell, flag, asleep, closed, stopping, "
     "wakeups, steal_floor, stride, high_replies, high_events): what the native lane needs."},
    {"give_rings", (PyCFunction)SeatBase_give_rings, METH_VARARGS,
     "give_rings(queue, closed, high_replies, high_events, workers): what the lane needs of a pool."},
    {"give_desk", FASTCALL(SeatBase_give_desk), METH_FASTCALL,
     "give_desk(desk, failed): where this seat's thread takes its work, and whom to tell of a "
     "turn that failed."},
    {"give_ground", (PyCFunction)SeatBase_give_ground, METH_NOARGS,
     "From now on, what is made for this seat lies together in memory: see plots.c."},
    {"make", FASTCALL(SeatBase_make), METH_FASTCALL | METH_KEYWORDS,
     "make(factory, *args, **kwargs): what the factory makes, laid on this seat's ground."},
    {"submit", (PyCFunction)SeatBase_submit, METH_O, "Queue anything that has turns."},
    {"ready", (PyCFunction)SeatBase_ready, METH_O,
     "Queue a house that has become READY; wake its owner, and a thief if there is much."},
    {"wake_owner", (PyCFunction)SeatBase_wake_owner, METH_NOARGS,
     "Something was queued: end the owner's sleep, unless this is the owner."},
    {"sleep", FASTCALL(SeatBase_sleep), METH_FASTCALL,
     "sleep(context, budget): until the bell rings, then the state actors; how many ran."},
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

/* A house's fields; the plan and the seat are followed as pointers from now on. */
static PyObject *HouseBase_settle(HouseBase *self, PyObject *const *args, Py_ssize_t n)
{
    if (n != 5 || !PyObject_TypeCheck(args[1], plan_base_type)
        || !PyObject_TypeCheck(args[2], seat_base_type)
        || !PyObject_TypeCheck(args[3], dispatcher_type))
        return PyErr_Format(PyExc_TypeError, "settle takes (actor, plan, scheduler, promises, id)");
    if (self->scheduler != NULL && otv_load(&self->cell.state) != OTV_CREATED)
        return PyErr_Format(PyExc_RuntimeError, "this house is settled already");
    self->id = PyLong_AsLongLong(args[4]);
    if (self->id == -1 && PyErr_Occurred())
        return NULL;
    put_field(&self->actor, Py_NewRef(args[0]));
    put_field(&self->plan, Py_NewRef(args[1]));
    put_field(&self->scheduler, Py_NewRef(args[2]));
    put_field(&self->promises, Py_NewRef(args[3]));
    self->plain = 1;
    Py_RETURN_NONE;
}

static PyObject *plan_name;

/* House.__init__(actor, scheduler, id) */
static int HouseBase_init(HouseBase *self, PyObject *args, PyObject *kwargs)
{
    if (PyTuple_GET_SIZE(args) != 3 || (kwargs != NULL && PyDict_GET_SIZE(kwargs) > 0)) {
        PyErr_SetString(PyExc_TypeError, "a House is made of (actor, scheduler, id)");
        return -1;
    }
    PyObject **given = ((PyTupleObject *)args)->ob_item;
    PyObject *plan = PyObject_GetAttr((PyObject *)Py_TYPE(given[0]), plan_name);
    if (plan == NULL)
        return -1;
    PyObject *needs[5] = {given[0], plan, given[1], known.nobody, given[2]};
    int failed = call_and_drop(HouseBase_settle(self, needs, 5));
    Py_DECREF(plan);
    return failed;
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
    for (PyObject **field = &self->actor; field <= &self->promises; field++)
        Py_VISIT(*field);
    return HouseCell_traverse(&self->cell, visit, arg);
}

static int HouseBase_clear(HouseBase *self)
{
    for (PyObject **field = &self->actor; field <= &self->promises; field++)
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
    if (!PyObject_TypeCheck(envelope, (PyTypeObject *)known.envelope)
        || ((EnvelopeBase *)envelope)->asker == NULL || ((EnvelopeBase *)envelope)->message == NULL)
        return PyErr_Format(PyExc_TypeError, "ask takes an Envelope, not %.80R", envelope);
    if (settled(self) < 0 || house_ask(self, ref_for(self, envelope)) < 0)
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
    if ((left == -1 && PyErr_Occurred()) || settled(self) < 0
        || may_take(&self->cell) < 0)
        return NULL;
    if (otv_load(&self->cell.runner) == 0)
        return PyErr_Format(PyExc_RuntimeError, "work is for the thread that runs the house");
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
    return PyBool_FromLong(atomic_load_explicit(&self->cell.high_priority, memory_order_relaxed));
}

static int HouseBase_set_high_priority(HouseBase *self, PyObject *value, void *Py_UNUSED(closure))
{
    int high = value == NULL ? -1 : PyObject_IsTrue(value);
    if (high < 0)
        return -1;
    atomic_store_explicit(&self->cell.high_priority, (char)high, memory_order_relaxed);
    return 0;
}

static PyMethodDef HouseBase_methods[] = {
    {"settle", FASTCALL(HouseBase_settle), METH_FASTCALL,
     "settle(actor, plan, scheduler, promises, id)"},
    {"notice", (PyCFunction)HouseBase_notice, METH_O, "Deliver a notice. Any thread."},
    {"ask", (PyCFunction)HouseBase_ask, METH_O, "Deliver an ask's envelope. Any thread."},
    {"answer", FASTCALL(HouseBase_answer), METH_FASTCALL,
     "answer(ids, reply): deliver a reply to this asker. Any thread."},
    {"work", FASTCALL(HouseBase_work), METH_FASTCALL,
     "work(context, left): handle messages until there are none or the budget is used up."},
    {"run_turn", (PyCFunction)HouseBase_run_turn, METH_O,
     "Handle messages up to the thread's budget."},
    {"run_pool_turn", (PyCFunction)HouseBase_run_pool_turn, METH_O,
     "The same as a turn of the pool: taken from a ring, and yielded or finished at its end."},
    {NULL},
};

static PyMemberDef HouseBase_members[] = {
    OBJECT(HouseBase, actor), OBJECT(HouseBase, barrier), OBJECT(HouseBase, stop_reason),
    OBJECT(HouseBase, channel_futures), OBJECT(HouseBase, promises), OBJECT(HouseBase, next_house),
    {"plan", T_OBJECT, offsetof(HouseBase, plan), READONLY, NULL},
    {"scheduler", T_OBJECT, offsetof(HouseBase, scheduler), READONLY, NULL},
    OBJECT(HouseBase, channel_promises), OBJECT(HouseBase, timers), OBJECT(HouseBase, family),
    NUMBER(HouseBase, id), NUMBER(HouseBase, next_id),
    TRUTH(HouseBase, load_balanced), TRUTH(HouseBase, plain),
    {NULL},
};

static PyGetSetDef HouseBase_getset[] = {
    {"high_priority", (getter)HouseBase_get_high_priority, (setter)HouseBase_set_high_priority,
     NULL, NULL},
    {NULL},
};

static PyType_Slot HouseBase_slots[] = {
    {Py_tp_init, HouseBase_init}, {Py_tp_methods, HouseBase_methods},
    {Py_tp_members, HouseBase_members}, {Py_tp_getset, HouseBase_getset}, OTV_GC_SLOTS(HouseBase),
    {0, NULL},
};

static PyType_Spec HouseBase_spec = {
    "otavia_ft.lane.HouseBase", sizeof(HouseBase), 0, OTV_FLAGS, HouseBase_slots,
};
