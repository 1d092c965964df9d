/* HouseQueue: a thread's READY houses, high priority before normal, in C.
 *
 * The twin of PriorityHouseQueue in otavia_ft/schedule/queues.py, where the rules are explained and
 * which the explorer searches; the tests of the two are the same. Its two lists are house_list.h's.
 *
 * A list owns one reference to each of its houses: `head` owns the first, `next_house` of each owns
 * the one behind it. So the collector sees all of them through their ordinary fields. `list_append`
 * makes that reference, who takes a house gets it.
 */

#include "house_list.h"

typedef struct {
    PyObject_HEAD
    house_list high;
    house_list normal;
    long long ageing_limit;
    long long high_in_a_row; /* the owner's own count; a thief leaves it alone */
} HouseQueue;

static PyTypeObject *house_base_type, *house_queue_type;

static int64_t list_append(house_list *list, HouseBase *house)
{
    Py_INCREF(house);
    put_field(&house->next_house, NULL); /* Python's queues leave a None there */
    return house_list_append(list, house, current_thread_id());
}

static HouseBase *list_pop(house_list *list)
{
    return house_list_pop(list, current_thread_id());
}

static HouseBase *list_try_steal(house_list *list)
{
    return house_list_try_steal(list, current_thread_id());
}

static int64_t queue_size(HouseQueue *queue)
{
    return house_list_size(&queue->high) + house_list_size(&queue->normal);
}

static int64_t queue_enqueue(HouseQueue *queue, HouseBase *house)
{
    if (atomic_load_explicit(&house->cell.high_priority, memory_order_relaxed))
        return list_append(&queue->high, house) + house_list_size(&queue->normal);
    return list_append(&queue->normal, house) + house_list_size(&queue->high);
}

static HouseBase *queue_dequeue(HouseQueue *queue)
{
    HouseBase *house;
    if (queue->high_in_a_row >= queue->ageing_limit) {
        queue->high_in_a_row = 0;
        if ((house = list_pop(&queue->normal)) != NULL)
            return house;
    }
    if ((house = list_pop(&queue->high)) != NULL) {
        queue->high_in_a_row++;
        return house;
    }
    queue->high_in_a_row = 0;
    return list_pop(&queue->normal);
}

/* The owner's time for business is over: if a normal house waits, it is next. */
static inline void queue_end_slice(HouseQueue *queue)
{
    queue->high_in_a_row = queue->ageing_limit;
}

static int HouseQueue_init(HouseQueue *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"ageing_limit", NULL};
    return PyArg_ParseTupleAndKeywords(args, kwargs, "L:HouseQueue", names, &self->ageing_limit)
        ? 0 : -1;
}

static int checked_house(PyObject *house)
{
    if (PyObject_TypeCheck(house, house_base_type))
        return 0;
    PyErr_Format(PyExc_TypeError, "a HouseQueue holds houses, not %.80R", house);
    return -1;
}

static PyObject *HouseQueue_enqueue(HouseQueue *self, PyObject *house)
{
    if (checked_house(house) < 0)
        return NULL;
    if (atomic_load_explicit(&((HouseBase *)house)->cell.queued, memory_order_relaxed))
        return PyErr_Format(PyExc_RuntimeError, "%.80R is in a queue already", house);
    return PyLong_FromLongLong(queue_enqueue(self, (HouseBase *)house));
}

static inline PyObject *house_or_none(HouseBase *house)
{
    return house != NULL ? (PyObject *)house : Py_NewRef(Py_None);
}

static PyObject *HouseQueue_dequeue(HouseQueue *self, PyObject *Py_UNUSED(ignored))
{
    return house_or_none(queue_dequeue(self));
}

static PyObject *HouseQueue_end_slice(HouseQueue *self, PyObject *Py_UNUSED(ignored))
{
    queue_end_slice(self);
    Py_RETURN_NONE;
}

static PyObject *HouseQueue_take(HouseQueue *self, PyObject *Py_UNUSED(ignored))
{
    HouseBase *house = list_pop(&self->high);
    return house_or_none(house != NULL ? house : list_pop(&self->normal));
}

static PyObject *HouseQueue_try_steal(HouseQueue *self, PyObject *Py_UNUSED(ignored))
{
    HouseBase *house = list_try_steal(&self->high);
    return house_or_none(house != NULL ? house : list_try_steal(&self->normal));
}

static Py_ssize_t HouseQueue_length(HouseQueue *self)
{
    return (Py_ssize_t)queue_size(self);
}

static PyObject *HouseQueue_get_high(HouseQueue *self, void *Py_UNUSED(closure))
{
    return PyLong_FromLongLong(house_list_size(&self->high));
}

static PyObject *HouseQueue_get_stealable(HouseQueue *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(house_list_size(&self->high) > 1 || house_list_size(&self->normal) > 1);
}

static int HouseQueue_traverse(HouseQueue *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT((PyObject *)self->high.head);
    Py_VISIT((PyObject *)self->normal.head);
    return 0;
}

static int HouseQueue_clear(HouseQueue *self)
{
    HouseBase *house;
    while ((house = list_pop(&self->high)) != NULL || (house = list_pop(&self->normal)) != NULL)
        Py_DECREF(house);
    return 0;
}

static void HouseQueue_dealloc(HouseQueue *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    HouseQueue_clear(self);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static PyMethodDef HouseQueue_methods[] = {
    {"enqueue", (PyCFunction)HouseQueue_enqueue, METH_O,
     "Any thread. The priority is the one that the house has now. Returns how many wait."},
    {"dequeue", (PyCFunction)HouseQueue_dequeue, METH_NOARGS, "The owner only."},
    {"end_slice", (PyCFunction)HouseQueue_end_slice, METH_NOARGS,
     "The owner, whose time for business is over: if a normal house waits, it is next."},
    {"take", (PyCFunction)HouseQueue_take, METH_NOARGS,
     "Any thread, at the end: one house, the last one too."},
    {"try_steal", (PyCFunction)HouseQueue_try_steal, METH_NOARGS,
     "A thief: one house, high before normal; None when contended or too few."},
    {NULL},
};

static PyGetSetDef HouseQueue_getset[] = {
    {"high", (getter)HouseQueue_get_high, NULL, "How many are of high priority.", NULL},
    {"stealable", (getter)HouseQueue_get_stealable, NULL,
     "Whether a thief could get something now.", NULL},
    {NULL},
};

static PyType_Slot HouseQueue_slots[] = {
    {Py_tp_doc, "HouseQueue(ageing_limit)\n--\n\nHigh-priority houses before normal ones."},
    {Py_tp_init, HouseQueue_init},
    {Py_tp_methods, HouseQueue_methods},
    {Py_tp_getset, HouseQueue_getset},
    {Py_sq_length, HouseQueue_length},
    {Py_tp_traverse, HouseQueue_traverse},
    {Py_tp_clear, HouseQueue_clear},
    {Py_tp_dealloc, HouseQueue_dealloc},
    {0, NULL},
};

static PyType_Spec HouseQueue_spec = {
    "otavia_ft.lane.HouseQueue", sizeof(HouseQueue), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE, HouseQueue_slots,
};
