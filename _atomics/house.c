/* HouseCell: state word, owner mark and six mailboxes of one house. */

/* Mailboxes in dispatch order. A bit mask of them (1 << number) selects several. */
#define OTV_MAILBOXES(X) \
    X(system, 0) X(reply, 1) X(exception, 2) X(ask, 3) X(notice, 4) X(event, 5)

enum {
#define X(name, number) BOX_##name = number,
    OTV_MAILBOXES(X)
#undef X
    BOXES
};

/* What stands beside what is a matter of cache lines, 64 bytes each, of which the first has 16 before
 * the object. Senders write to the line that begins with `lively`, and find there all that they look at
 * unless the house sleeps; the runner writes to the lines above and below, and comes to that one when
 * it changes the state or has run out of messages. While it handles them it looks at the system
 * mailbox before each: that one is in a line to which only replies are written, too. */
typedef struct {
    PyObject_HEAD
    otv_cell runner; /* thread id of the one runner, 0 when nobody runs: the owner mark */
    otv_cell taker;  /* thread id of who takes mail while nobody runs, for that one step; else 0 */

    otv_inbox calm[BOX_ask]; /* system, reply, exception */
    otv_outbox out_system;

    otv_inbox lively[BOXES - BOX_ask]; /* ask, notice, event */
    otv_cell state;
    /* Of the house that is made of this cell: see lane.h. Both are relaxed wherever they are
     * touched: who queues the house has won its transition to READY and so sees what the runner
     * before it has written, and nobody else goes by them. A raise that comes too late for that
     * counts the next time. */
    _Atomic char high_priority; /* any thread that delivers may raise it */
    _Atomic char queued; /* whether a HouseQueue holds it: a second one would tear the first apart */

    otv_outbox out[BOXES - 1]; /* all but the system's */
} HouseCell;

static inline otv_inbox *inbox_of(HouseCell *self, int box)
{
    return box < BOX_ask ? &self->calm[box] : &self->lively[box - BOX_ask];
}

static inline otv_mailbox mailbox_of(HouseCell *self, int box)
{
    otv_outbox *out = box == BOX_system ? &self->out_system : &self->out[box - 1];
    return (otv_mailbox){inbox_of(self, box), out};
}

static PyObject *InvariantError; /* our own bug, never the user's: asks for a report */
static PyTypeObject *drain_type;

static const char *state_name(int64_t state)
{
    switch (state) {
#define X(name, number) case number: return #name;
        OTV_STATES(X)
#undef X
    }
    return "?";
}

/* The owner mark makes a broken single-runner rule loud. Only the runner writes it, so a load and a
 * store do, on a line that the transition has fetched already; the transition's compare-and-set
 * orders them for the next runner. Should two threads enter at the very same moment, both may find
 * the mark free; then the first to leave finds the other's mark. A stranger that is refused leaves
 * the mark as it is, so that the rightful runner is not accused next. */
enum mark { KEEP, TAKE, GIVE };

/* Out of line, so that what happens every time stays short. */
static __attribute__((cold, noinline)) int wrong_mark(const char *does, int64_t seen)
{
    PyErr_Format(InvariantError,
                 "single-runner invariant broken: thread %lld %s a house whose runner mark "
                 "is %lld (please report this)",
                 (long long)current_thread_id(), does, (long long)seen);
    return -1;
}

static __attribute__((cold, noinline)) int wrong_state(HouseCell *self)
{
    PyErr_Format(InvariantError,
                 "a running house was found %s instead of RUNNING (please report this)",
                 state_name(otv_load(&self->state)));
    return -1;
}

/* The consumer's side of a mailbox is a plain list: two consumers would free a node twice. So there
 * is one at a time, on either of two grounds:
 *
 *   - it runs the house: its runner mark says so, and that is all the hot path looks at;
 *   - nobody runs it (a mailbox without a house around it, or the remains of one): then it sets the
 *     taker mark for the length of the step. Two such takers are told apart by the compare-and-set;
 *     a taker and a runner by a handshake. The taker sets its mark and then reads the state, the
 *     runner sets RUNNING and then reads the mark, all four seq-cst: so one of them sees the other.
 *     The taker is refused; the runner waits, because the taker came first and is done at once.
 *
 * may_take: 1: allowed until done_taking, 0: allowed, being the runner, -1: refused. */
static __attribute__((cold, noinline)) int refuse_taker(const char *whose, int64_t other)
{
    PyErr_Format(InvariantError,
                 "single-runner invariant broken: thread %lld takes mail of a house that thread "
                 "%lld %s (please report this)",
                 (long long)current_thread_id(), (long long)other, whose);
    return -1;
}

static __attribute__((noinline)) int may_take_unrun(HouseCell *self, int64_t me)
{
    /* Whoever runs it is named without a touch of the mark. */
    int64_t runner = otv_load(&self->runner);
    if (runner != 0)
        return refuse_taker("runs", runner);
    if (!otv_compare_and_set(&self->taker, 0, me))
        return refuse_taker("is taking from", otv_load(&self->taker));
    if (otv_load_ordered(&self->state) != OTV_RUNNING)
        return 1;
    otv_lazy_set(&self->taker, 0);
    return refuse_taker("runs", otv_load(&self->runner));
}

static inline int may_take(HouseCell *self)
{
    int64_t me = current_thread_id();
    return otv_load(&self->runner) == me ? 0 : may_take_unrun(self, me);
}

/* Release: the next consumer sees the list as this one left it. */
static inline void done_taking(HouseCell *self, int taking)
{
    if (taking)
        otv_lazy_set(&self->taker, 0);
}

static __attribute__((cold, noinline)) void wait_for_taker(HouseCell *self)
{
    for (int round = 0; otv_load_ordered(&self->taker) != 0; round++)
        OTV_WAIT_FOR_LOCK(round);
}

/* 1: it happened, 0: it did not, -1: a rule is broken and the exception is set. */
static inline __attribute__((always_inline)) int
do_transition(HouseCell *self, enum otv_state from, enum otv_state to, enum mark mark)
{
    int64_t me = mark == KEEP ? 0 : current_thread_id();
    if (mark == GIVE) {
        int64_t seen = otv_load(&self->runner);
        if (seen != me)
            return wrong_mark("leaves", seen);
        /* Given back before the state is: after the transition somebody else may enter. */
        otv_lazy_set(&self->runner, 0);
    }
    if (!otv_transition(&self->state, from, to)) {
        return mark == GIVE ? wrong_state(self) : 0;
    }
    if (mark == TAKE) {
        int64_t seen = otv_load(&self->runner);
        if (seen != 0)
            return wrong_mark("enters", seen);
        otv_lazy_set(&self->runner, me);
        /* The runner's half of the handshake with a taker: on a line that is here already. */
        if (otv_load_ordered(&self->taker) != 0)
            wait_for_taker(self);
    }
    return 1;
}

static inline PyObject *as_bool(int outcome)
{
    return outcome < 0 ? NULL : Py_NewRef(outcome ? Py_True : Py_False);
}

#define X(name, from, to, mark)                                                                  \
    static inline int house_##name(HouseCell *self)                                              \
    {                                                                                            \
        return do_transition(self, OTV_##from, OTV_##to, mark);                                  \
    }                                                                                            \
    static PyObject *HouseCell_##name(HouseCell *self, PyObject *Py_UNUSED(ignored))             \
    {                                                                                            \
        return as_bool(house_##name(self));                                                      \
    }
OTV_TRANSITIONS(X)
#undef X

/* put, then try_ready: the order of the dispatcher's enqueue path. The message is visible before
 * the state is read, and the runner that goes to sleep stores WAITING before it looks at the
 * mailboxes again, so at least one of the two sees the other. The reference is taken over. */
static inline int house_post(HouseCell *self, int box, PyObject *message)
{
    if (!otv_push(inbox_of(self, box), message)) {
        Py_DECREF(message);
        PyErr_NoMemory();
        return -1;
    }
    return otv_transition(&self->state, OTV_WAITING, OTV_READY);
}

#define X(name, number)                                                                          \
    static PyObject *HouseCell_post_##name(HouseCell *self, PyObject *message)                   \
    {                                                                                            \
        return as_bool(house_post(self, number, Py_NewRef(message)));                            \
    }
OTV_MAILBOXES(X)
#undef X

static int box_number(PyObject *value)
{
    long number = PyLong_AsLong(value);
    if (number < 0 || number >= BOXES) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_ValueError, "no mailbox has number %ld (0 to %d)", number,
                         BOXES - 1);
        return -1;
    }
    return (int)number;
}

static int box_and_object(PyObject *const *args, Py_ssize_t n, const char *usage)
{
    if (n != 2) {
        PyErr_Format(PyExc_TypeError, "%s, got %zd arguments", usage, n);
        return -1;
    }
    return box_number(args[0]);
}

static PyObject *HouseCell_put(HouseCell *self, PyObject *const *args, Py_ssize_t n)
{
    int box = box_and_object(args, n, "put takes (mailbox, message)");
    if (box < 0)
        return NULL;
    if (!otv_push(inbox_of(self, box), Py_NewRef(args[1]))) {
        Py_DECREF(args[1]);
        return PyErr_NoMemory();
    }
    Py_RETURN_NONE;
}

static PyObject *HouseCell_put_front(HouseCell *self, PyObject *const *args, Py_ssize_t n)
{
    int box = box_and_object(args, n, "put_front takes (mailbox, message)");
    int taking = box < 0 ? -1 : may_take(self);
    if (taking < 0)
        return NULL;
    bool pushed = otv_push_front(mailbox_of(self, box), Py_NewRef(args[1]));
    done_taking(self, taking);
    if (!pushed) {
        Py_DECREF(args[1]);
        return PyErr_NoMemory();
    }
    Py_RETURN_NONE;
}

static PyObject *HouseCell_take(HouseCell *self, PyObject *const *args, Py_ssize_t n)
{
    int box = box_and_object(args, n, "take takes (mailbox, value when empty)");
    int taking = box < 0 ? -1 : may_take(self);
    if (taking < 0)
        return NULL;
    PyObject *message = (PyObject *)otv_pop(mailbox_of(self, box));
    done_taking(self, taking);
    return message != NULL ? message : Py_NewRef(args[1]);
}

static PyObject *HouseCell_size(HouseCell *self, PyObject *value)
{
    int box = box_number(value);
    if (box < 0)
        return NULL;
    return PyLong_FromLongLong(otv_size(mailbox_of(self, box)));
}

static PyObject *HouseCell_has_mail(HouseCell *self, PyObject *value)
{
    long mask = PyLong_AsLong(value);
    if (mask == -1 && PyErr_Occurred())
        return NULL;
    for (int box = 0; box < BOXES; box++)
        if ((mask & (1L << box)) && otv_has_mail(mailbox_of(self, box)))
            Py_RETURN_TRUE;
    Py_RETURN_FALSE;
}

/* All of them at once: bit `number` is set when that mailbox holds a message. One call a pass tells
 * the dispatcher which of the six it has to visit. */
static inline long house_mail(HouseCell *self)
{
    long mask = 0;
    for (int box = 0; box < BOXES; box++)
        if (otv_has_mail(mailbox_of(self, box)))
            mask |= 1L << box;
    return mask;
}

static PyObject *HouseCell_mail(HouseCell *self, PyObject *Py_UNUSED(ignored))
{
    return PyLong_FromLong(house_mail(self));
}

static PyObject *HouseCell_get_state(HouseCell *self, void *Py_UNUSED(closure))
{
    return PyLong_FromLongLong(otv_load_ordered(&self->state));
}

static PyObject *HouseCell_get_runner(HouseCell *self, void *Py_UNUSED(closure))
{
    return PyLong_FromLongLong(otv_load(&self->runner));
}

/* The mailboxes hold references, so the collector must see them. It runs with the world stopped,
 * and no step above can be stopped half-way; so its loads need no order, and have the default. */
static int visit_chain(otv_node *node, visitproc visit, void *arg)
{
    for (; node != NULL; node = node->next)
        Py_VISIT((PyObject *)node->message);
    return 0;
}

static int HouseCell_traverse(HouseCell *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    for (int box = 0; box < BOXES; box++) {
        otv_mailbox mailbox = mailbox_of(self, box);
        int stop = visit_chain(atomic_load(&mailbox.in->in), visit, arg);
        if (stop == 0)
            stop = visit_chain(atomic_load(&mailbox.out->out), visit, arg);
        if (stop != 0)
            return stop;
    }
    return 0;
}

static int HouseCell_clear(HouseCell *self)
{
    for (int box = 0; box < BOXES; box++) {
        PyObject *message;
        while ((message = (PyObject *)otv_pop(mailbox_of(self, box))) != NULL)
            Py_DECREF(message);
    }
    return 0;
}

static void HouseCell_dealloc(HouseCell *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    /* A message may hold the next cell, whose message holds the next: the trashcan turns the
     * recursion into a loop before it reaches the end of the C stack. */
    Py_TRASHCAN_BEGIN(self, HouseCell_dealloc)
    HouseCell_clear(self);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
    Py_TRASHCAN_END
}

static PyObject *HouseCell_drain(HouseCell *self, PyObject *const *args, Py_ssize_t n); /* drain.c */

#define FASTCALL(function) (PyCFunction)(void (*)(void))function

static PyMethodDef HouseCell_methods[] = {
#define X(name, from, to, mark) \
    {#name, (PyCFunction)HouseCell_##name, METH_NOARGS, #from " -> " #to ". True if it happened."},
    OTV_TRANSITIONS(X)
#undef X
#define X(name, number)                                       \
    {"post_" #name, (PyCFunction)HouseCell_post_##name, METH_O, \
     "Put into the " #name " mailbox, then try_ready; True: the caller must enqueue the house."},
    OTV_MAILBOXES(X)
#undef X
    {"put", FASTCALL(HouseCell_put), METH_FASTCALL,
     "put(mailbox, message): append only, no scheduling. Any thread."},
    {"put_front", FASTCALL(HouseCell_put_front), METH_FASTCALL,
     "put_front(mailbox, message): before everything that waits. The runner only."},
    {"take", FASTCALL(HouseCell_take), METH_FASTCALL,
     "take(mailbox, empty): the oldest message, or `empty`. The runner only."},
    {"drain", FASTCALL(HouseCell_drain), METH_FASTCALL,
     "drain(mailbox, budget): iterate over messages; see above. The runner only."},
    {"size", (PyCFunction)HouseCell_size, METH_O, "Messages in a mailbox, about now."},
    {"mail", (PyCFunction)HouseCell_mail, METH_NOARGS,
     "The mask of the mailboxes that hold a message."},
    {"has_mail", (PyCFunction)HouseCell_has_mail, METH_O,
     "Whether any mailbox of the mask (1 << number, or-ed) holds a message."},
    {NULL},
};

static PyGetSetDef HouseCell_getset[] = {
    {"state", (getter)HouseCell_get_state, NULL, "The state's number.", NULL},
    {"runner", (getter)HouseCell_get_runner, NULL, "Thread id of the runner, 0 for none.", NULL},
    {NULL},
};

static PyType_Slot HouseCell_slots[] = {
    {Py_tp_doc, "HouseCell()\n--\n\nState word, owner mark and six mailboxes of one house."},
    {Py_tp_methods, HouseCell_methods},
    {Py_tp_getset, HouseCell_getset},
    {Py_tp_traverse, HouseCell_traverse},
    {Py_tp_clear, HouseCell_clear},
    {Py_tp_dealloc, HouseCell_dealloc},
    {0, NULL},
};

static PyType_Spec HouseCell_spec = {
    "otavia_ft.atomic.HouseCell", sizeof(HouseCell), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    HouseCell_slots,
};
