/* The pool's rings and its workers' desks, as Python types.
 *
 * The twins of LocalRing, GlobalRing, ReadyQueue and Desk in otavia_ft/schedule/rings.py. There they
 * are explained, and there the explorer searches them; "number 3" and the like are places in the
 * list at the top of that module. What moves items under the locks is in rings.h, without Python;
 * what runs their turns is in pool.c.
 *
 * A ring owns one reference to each of its items.
 */

static PyTypeObject *local_ring_type, *global_ring_type, *ready_queue_type, *desk_type;

/* ---- the two rings --------------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    otv_ring ring;
} Ring;

static PyObject *ring_new(PyTypeObject *type, long long index, long long capacity)
{
    if (capacity < 1 || capacity > PY_SSIZE_T_MAX / (long long)sizeof(void *))
        return PyErr_Format(PyExc_ValueError, "a ring has 1 slot at least, not %lld", capacity);
    Ring *self = (Ring *)type->tp_alloc(type, 0);
    if (self != NULL && !otv_ring_init(&self->ring, index, capacity)) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    return (PyObject *)self;
}

static PyObject *LocalRing_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"index", "capacity", NULL};
    long long index, capacity;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "LL:LocalRing", names, &index, &capacity))
        return NULL;
    return ring_new(type, index, capacity);
}

static PyObject *GlobalRing_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"capacity", NULL};
    long long capacity;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "L:GlobalRing", names, &capacity))
        return NULL;
    return ring_new(type, -1, capacity);
}

static PyObject *LocalRing_push(Ring *self, PyObject *item)
{
    Py_INCREF(item); /* before the lock, and given back behind it */
    int64_t count = otv_ring_push(&self->ring, item, current_thread_id());
    if (count == 0)
        Py_DECREF(item);
    return PyLong_FromLongLong(count);
}

static int global_push(Ring *shared, PyObject *item)
{
    Py_INCREF(item);
    if (otv_ring_push_growing(&shared->ring, item, current_thread_id()))
        return 0;
    Py_DECREF(item);
    PyErr_NoMemory();
    return -1;
}

static PyObject *GlobalRing_push(Ring *self, PyObject *item)
{
    if (global_push(self, item) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static inline PyObject *item_or_none(PyObject *item)
{
    return item != NULL ? item : Py_NewRef(Py_None);
}

static PyObject *Ring_pop(Ring *self, PyObject *Py_UNUSED(ignored))
{
    return item_or_none((PyObject *)otv_ring_pop(&self->ring, current_thread_id()));
}

static Py_ssize_t Ring_length(Ring *self)
{
    return (Py_ssize_t)otv_ring_count(&self->ring);
}

static PyObject *Ring_get_given(Ring *self, void *Py_UNUSED(closure))
{
    return PyLong_FromLongLong(atomic_load_explicit(&self->ring.given, memory_order_relaxed));
}

static PyObject *Ring_get_index(Ring *self, void *Py_UNUSED(closure))
{
    return PyLong_FromLongLong(self->ring.index);
}

static PyObject *Ring_get_capacity(Ring *self, void *Py_UNUSED(closure))
{
    return PyLong_FromLongLong(self->ring.capacity);
}

/* The collector comes with the world stopped, and nobody stops between lock and unlock. */
static int Ring_traverse(Ring *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    for (int64_t i = 0; self->ring.slots != NULL && i < self->ring.capacity; i++)
        Py_VISIT((PyObject *)self->ring.slots[i]);
    return 0;
}

static int Ring_clear(Ring *self)
{
    PyObject *item;
    while ((item = (PyObject *)otv_ring_pop(&self->ring, current_thread_id())) != NULL)
        Py_DECREF(item);
    return 0;
}

static void Ring_dealloc(Ring *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_TRASHCAN_BEGIN(self, Ring_dealloc) /* an item may be a ring */
    Ring_clear(self);
    free(self->ring.slots);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
    Py_TRASHCAN_END
}

/* steal_half(victim, thief) */
static PyObject *native_steal_half(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n)
{
    if (n != 2 || !Py_IS_TYPE(args[0], local_ring_type) || !Py_IS_TYPE(args[1], local_ring_type))
        return PyErr_Format(PyExc_TypeError, "steal_half takes (victim, thief), two LocalRings");
    return item_or_none((PyObject *)otv_ring_steal_half(
        &((Ring *)args[0])->ring, &((Ring *)args[1])->ring, current_thread_id()));
}

static PyMethodDef LocalRing_methods[] = {
    {"push", (PyCFunction)LocalRing_push, METH_O,
     "To the tail; returns how many there are then, or 0: it is full, and nothing was done."},
    {"pop", (PyCFunction)Ring_pop, METH_NOARGS, "From the head; None when empty."},
    {NULL},
};

static PyMethodDef GlobalRing_methods[] = {
    {"push", (PyCFunction)GlobalRing_push, METH_O, "To the tail. Any thread."},
    {"pop", (PyCFunction)Ring_pop, METH_NOARGS,
     "From the head; None when empty. An empty ring costs a load and no lock."},
    {NULL},
};

static PyGetSetDef LocalRing_getset[] = {
    {"index", (getter)Ring_get_index, NULL, "Its place in the order of the locks.", NULL},
    {"given", (getter)Ring_get_given, NULL, "How often siblings have stolen from here.", NULL},
    {"capacity", (getter)Ring_get_capacity, NULL, "How many slots it has.", NULL},
    {NULL},
};

static PyGetSetDef GlobalRing_getset[] = {
    {"capacity", (getter)Ring_get_capacity, NULL, "How many slots it has at present.", NULL},
    {NULL},
};

#define RING_SLOTS(Type, doc)                                                                    \
    {Py_tp_doc, doc}, {Py_tp_new, Type##_new}, {Py_tp_methods, Type##_methods},                  \
    {Py_tp_getset, Type##_getset}, {Py_sq_length, Ring_length},                                  \
    {Py_tp_traverse, Ring_traverse}, {Py_tp_clear, Ring_clear}, {Py_tp_dealloc, Ring_dealloc},   \
    {0, NULL}

static PyType_Slot LocalRing_slots[] = {
    RING_SLOTS(LocalRing, "LocalRing(index, capacity)\n--\n\nOne worker's ring, of a fixed size."),
};

static PyType_Slot GlobalRing_slots[] = {
    RING_SLOTS(GlobalRing, "GlobalRing(capacity)\n--\n\nThe ring that all share; it grows."),
};

#define RINGS_FLAGS (Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE)

static PyType_Spec LocalRing_spec = {
    "otavia_ft.lane.LocalRing", sizeof(Ring), 0, RINGS_FLAGS, LocalRing_slots,
};

static PyType_Spec GlobalRing_spec = {
    "otavia_ft.lane.GlobalRing", sizeof(Ring), 0, RINGS_FLAGS, GlobalRing_slots,
};

/* ---- all rings of a pool --------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    PyObject *call; /* these three the collector may take away */
    PyObject *desks;
    PyObject *seats; /* a tuple of the workers' SeatBases, or nothing */
    PyObject *rings; /* these are for life: they are followed without a look */
    PyObject *shared;
    PyObject *asleep; /* AtomicInt, or nothing: then `call` knows who sleeps */
    PyObject *house_type;
    long long poll_interval;
} ReadyQueue;

typedef struct {
    PyObject_HEAD
    PyObject *queue; /* for life, both */
    PyObject *ring;
    long long takes;
    long long steals;
} Desk;

static inline otv_ring *ring_of(PyObject *ring)
{
    return &((Ring *)ring)->ring;
}

/* Parker.wake for one that was seen asleep. Only the caller that changed the flag from ASLEEP has
 * called it; any other goes on to the next (number 4). */
static bool call_one(SeatBase *seat)
{
    if (seat->flag == NULL || otv_load_ordered(cell_of(seat->flag)) != ASLEEP
        || otv_get_and_set(cell_of(seat->flag), NOTIFIED) != ASLEEP)
        return false;
    ring(seat);
    return true;
}

/* Crew.call_thief. Nobody asleep costs one load: no lock, no system call, and no write to a line
 * that all workers read. (Python adds zero instead, crew.py says why. The store of the count that
 * came before is seq-cst here, so a seq-cst load cannot overtake it: number 3.) */
static int call_sleeper(ReadyQueue *queue)
{
    if (queue->asleep == NULL)
        return queue->call == NULL ? 0 : call_and_drop(PyObject_CallNoArgs(queue->call));
    if (otv_load_ordered(cell_of(queue->asleep)) == 0 || queue->seats == NULL)
        return 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(queue->seats); i++)
        if (call_one((SeatBase *)PyTuple_GET_ITEM(queue->seats, i)))
            break;
    return 0;
}

/* ReadyQueue.push: the item first, then the look for a sleeper (number 3). */
static int ready_push(ReadyQueue *queue, PyObject *item)
{
    return global_push((Ring *)queue->shared, item) < 0 ? -1 : call_sleeper(queue);
}

static bool ready_waiting(ReadyQueue *queue)
{
    if (otv_ring_count(ring_of(queue->shared)) > 0)
        return true;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(queue->rings); i++)
        if (otv_ring_count(ring_of(PyTuple_GET_ITEM(queue->rings, i))) > 0)
            return true;
    return false;
}

/* ---- a worker's place there ------------------------------------------------------------------ */

/* Desk.push: a single item is this worker's to take; of more, somebody else must know (number 5). */
static int desk_push(Desk *desk, PyObject *item)
{
    ReadyQueue *queue = (ReadyQueue *)desk->queue;
    Py_INCREF(item);
    int64_t count = otv_ring_push(ring_of(desk->ring), item, current_thread_id());
    if (count > 0)
        return count > 1 ? call_sleeper(queue) : 0;
    int failed = ready_push(queue, item); /* full: to the global one */
    Py_DECREF(item);
    return failed;
}

static int desk_steal(Desk *desk, PyObject **item)
{
    ReadyQueue *queue = (ReadyQueue *)desk->queue;
    otv_ring *own = ring_of(desk->ring);
    Py_ssize_t n = PyTuple_GET_SIZE(queue->rings);
    for (Py_ssize_t step = 1; step < n; step++) { /* from the next one on: thieves spread */
        otv_ring *victim = ring_of(PyTuple_GET_ITEM(queue->rings, (own->index + step) % n));
        *item = (PyObject *)otv_ring_steal_half(victim, own, current_thread_id());
        if (*item != NULL) {
            desk->steals++;
            return ready_waiting(queue) ? call_sleeper(queue) : 0; /* numbers 5 and 6 */
        }
    }
    return 0;
}

/* Desk.take, with the item's reference; *item is NULL if there is none. -1: somebody could not be
 * called, and the exception is set. */
static int desk_take(Desk *desk, PyObject **item)
{
    ReadyQueue *queue = (ReadyQueue *)desk->queue;
    otv_ring *own = ring_of(desk->ring), *shared = ring_of(queue->shared);
    int64_t me = current_thread_id();
    if (++desk->takes >= queue->poll_interval) { /* number 7 */
        desk->takes = 0;
        if ((*item = (PyObject *)otv_ring_pop(shared, me)) != NULL)
            return otv_ring_count(own) > 0 ? call_sleeper(queue) : 0; /* number 5 */
    }
    if ((*item = (PyObject *)otv_ring_pop(own, me)) == NULL
        && (*item = (PyObject *)otv_ring_pop(shared, me)) == NULL)
        return desk_steal(desk, item);
    return 0;
}

static PyObject *Desk_run_turns(Desk *self, PyObject *const *args, Py_ssize_t n); /* pool.c */
