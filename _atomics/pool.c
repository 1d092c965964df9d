/* The pool scheduler in C: a turn, a worker's loop over turns, and the way into the global ring.
 *
 * The twins of PoolHouse.run_turn and PoolScheduler.submit in otavia_ft/schedule/pool.py and of
 * Desk.run_turns in otavia_ft/schedule/rings.py, in the same order, step by step.
 */

static PyObject *run_turn_name;

/* ---- a turn ---------------------------------------------------------------------------------- */

/* PoolHouse.take_for_processing: Scheduled -> Processing. 0: a stale entry, or it is another's. */
static int take_for_processing(HouseBase *house)
{
    int scheduled = house_try_schedule(&house->cell);
    return scheduled > 0 ? house_try_run(&house->cell) : scheduled;
}

/* PoolHouse.yield_turn: Processing -> Scheduled first, into the ring second. A thief drops what it
 * cannot take. */
static int yield_turn(HouseBase *house, ContextBase *context)
{
    if (house_run_to_ready(&house->cell) < 0)
        return -1;
    SeatBase *seat = (SeatBase *)context->seat;
    if (seat != NULL && PyObject_TypeCheck((PyObject *)seat, seat_base_type) && seat->desk != NULL)
        return desk_push((Desk *)seat->desk, (PyObject *)house);
    PyObject *owner = PyObject_GetAttrString((PyObject *)context, "owner");
    int failed = owner == NULL ? -1 : call_and_drop(call_method(owner, "reschedule", house));
    Py_XDECREF(owner);
    return failed;
}

/* PoolHouse.finish_or_reclaim: Processing -> Idle, and only then the look. A sender puts first and
 * looks at the state second, so one of the two sees the other. If both do, the compare-and-set of
 * try_ready decides, and a sender that wins it has pushed the house. 1: it is ours again. */
static int finish_or_reclaim(HouseBase *house, long mask)
{
    OTV_LINGER(); /* mail that comes now is for the look below */
    if (house_run_to_waiting(&house->cell) < 0)
        return -1;
    if (!has_mail(house, mask))
        return 0;
    int reclaimed = house_try_ready(&house->cell);
    return reclaimed > 0 ? take_for_processing(house) : reclaimed;
}

/* PoolHouse.run_turn. The caller holds a reference: from the moment that the house is given up,
 * another worker may run it to the end of its life. */
static int pool_turn(HouseBase *house, ContextBase *context)
{
    int taken = take_for_processing(house);
    if (taken <= 0)
        return taken;
    context->turns++;
    int64_t left = context->budget; /* which a reclaim does not renew */
    int failed = 0;
    for (;;) {
        left = house_work(house, context, left);
        /* Read while the house is ours: after the release it may have a new owner. */
        long mask = is_some(house->barrier) ? IN_BARRIER : EVERYTHING;
        if (left <= 0 && (has_items(house->channel_futures) || has_mail(house, mask))) {
            failed = yield_turn(house, context);
            break;
        }
        int ours = finish_or_reclaim(house, mask);
        if (ours <= 0) {
            failed = ours;
            break;
        }
    }
    context->messages += context->budget - left;
    return failed;
}

static PyObject *HouseBase_run_pool_turn(HouseBase *self, PyObject *context)
{
    if (!PyObject_TypeCheck(context, context_base_type))
        return PyErr_Format(PyExc_TypeError, "run_turn takes a context, not %.80R", context);
    if (settled(self) < 0 || pool_turn(self, (ContextBase *)context) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* What a worker knows of an item: that it has turns. One kind of them it knows by heart. */
static int run_item(Desk *desk, PyObject *item, PyObject *context)
{
    if ((PyObject *)Py_TYPE(item) == ((ReadyQueue *)desk->queue)->house_type)
        return settled((HouseBase *)item) < 0
            ? -1 : pool_turn((HouseBase *)item, (ContextBase *)context);
    return call_and_drop(PyObject_CallMethodOneArg(item, run_turn_name, context));
}

/* Desk.run_turns; a deadline below zero is none. */
static PyObject *run_turns(Desk *desk, PyObject *context, long long deadline, otv_cell *stopping,
                           long long stride, PyObject *failed)
{
    long long count = 0;
    while (!otv_load(stopping)) {
        PyObject *item = NULL;
        if (desk_take(desk, &item) < 0) {
            Py_XDECREF(item);
            return NULL;
        }
        if (item == NULL)
            break;
        if (run_item(desk, item, context) < 0) { /* houses catch all; other items may not */
            PyObject *error = PyErr_GetRaisedException();
            int told = call_and_drop(PyObject_CallFunctionObjArgs(failed, item, error, NULL));
            Py_XDECREF(error);
            if (told < 0) {
                Py_DECREF(item);
                return NULL;
            }
        }
        Py_DECREF(item);
        count++;
        if (deadline >= 0 && count % stride == 0 && otv_monotonic_ns() >= deadline)
            break;
    }
    return PyLong_FromLongLong(count);
}

static PyObject *Desk_run_turns(Desk *self, PyObject *const *args, Py_ssize_t n)
{
    if (n != 5 || !PyObject_TypeCheck(args[0], context_base_type)
        || !Py_IS_TYPE(args[2], atomic_int_type))
        return PyErr_Format(PyExc_TypeError,
                            "run_turns takes (context, deadline, stopping, stride, failed)");
    long long deadline = args[1] == Py_None ? -1 : PyLong_AsLongLong(args[1]);
    long long stride = PyLong_AsLongLong(args[3]);
    if (PyErr_Occurred())
        return NULL;
    if (stride < 1)
        return PyErr_Format(PyExc_ValueError, "a stride is 1 at least, not %lld", stride);
    return run_turns(self, args[0], deadline, cell_of(args[2]), stride, args[4]);
}

/* HouseManager.sleep: the bell, awake again, and straight to the work if nothing comes before it. */
static PyObject *SeatBase_sleep(SeatBase *self, PyObject *const *args, Py_ssize_t n)
{
    long long budget;
    ContextBase *context = context_and_time(self, args, n, &budget);
    if (context == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    otv_bell_wait(&((Bell *)self->bell)->bell, -1);
    Py_END_ALLOW_THREADS
    bool wrapped;
    otv_get_and_add(cell_of(self->asleep), -1, &wrapped);
    otv_set(cell_of(self->flag), AWAKE);
    if (queue_size((HouseQueue *)self->mounting) || queue_size((HouseQueue *)self->channels)
        || house_mail((HouseCell *)self->events))
        return PyLong_FromLong(0);
    long long deadline = budget < 0 ? -1 : otv_monotonic_ns() + budget;
    if (self->desk != NULL)
        return run_turns((Desk *)self->desk, (PyObject *)context, deadline,
                         cell_of(self->stopping), self->stride, self->failed);
    return run_state_actors(self, context, deadline);
}

/* ---- the way in, from the seat of every pooled house ------------------------------------------- */

/* PoolScheduler.submit. Pairs with its close(): the item is in the ring (a seq-cst store) before
 * `closed` is read, and close() sets that before it looks into the rings. */
static int pool_submit(SeatBase *seat, PyObject *item)
{
    if (ready_push((ReadyQueue *)seat->rings, item) < 0)
        return -1;
    if (otv_load_ordered(cell_of(seat->closed)))
        return call_and_drop(call_method(seat, "bury", NULL));
    return 0;
}

static PyObject *SeatBase_submit(SeatBase *self, PyObject *item)
{
    if (self->rings == NULL)
        return PyErr_Format(PyExc_RuntimeError, "this seat has no rings: give it some first");
    if (pool_submit(self, item) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* give_rings(queue, closed, high_replies, high_events, workers): the seat of all pooled houses. */
static PyObject *SeatBase_give_rings(SeatBase *self, PyObject *args)
{
    PyObject *queue, *closed;
    if (!PyArg_ParseTuple(args, "O!O!LLL:give_rings", ready_queue_type, &queue, atomic_int_type,
                          &closed, &self->high_replies, &self->high_events, &self->workers))
        return NULL;
    if (self->rings != NULL || self->closed != NULL)
        return PyErr_Format(PyExc_RuntimeError, "this seat is furnished already");
    put_field(&self->closed, Py_NewRef(closed));
    put_field(&self->rings, Py_NewRef(queue));
    Py_RETURN_NONE;
}

/* give_desk(desk, failed): the seat of a pool's worker. */
static PyObject *SeatBase_give_desk(SeatBase *self, PyObject *const *args, Py_ssize_t n)
{
    if (n != 2 || !Py_IS_TYPE(args[0], desk_type))
        return PyErr_Format(PyExc_TypeError, "give_desk takes (desk, failed)");
    if (self->desk != NULL)
        return PyErr_Format(PyExc_RuntimeError, "this seat has its desk already");
    put_field(&self->failed, Py_NewRef(args[1]));
    put_field(&self->desk, Py_NewRef(args[0]));
    Py_RETURN_NONE;
}
