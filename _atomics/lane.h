/* What the native lane knows of the runtime's objects: their layouts.
 *
 * The Python classes derive from these types (otavia_ft/lane.py), so that Python and C work on the
 * same fields. Who may touch which field is said where the Python class is.
 *
 * A field holds an owned reference; nothing there reads as None. Fields that the collector has to
 * see stand side by side, from the first to the last one that OTV_OBJECT names.
 */
#ifndef OTV_LANE_H
#define OTV_LANE_H

typedef struct { /* house/house.py */
    HouseCell cell; /* first: a HouseBase is a HouseCell */
    /* Beside the seat, which every sender reads too. In the senders' line a look at it would fetch that
     * line for reading first, and for writing once more. */
    char plain; /* its mail is in its own mailboxes, and goes the ordinary way */
    char load_balanced;
    PyObject *actor;
    PyObject *plan;       /* PlanBase */
    PyObject *scheduler;  /* SeatBase */
    PyObject *next_house; /* owned by whoever owns this house's place in a queue */
    PyObject *barrier;
    PyObject *stop_reason;
    PyObject *channel_futures;
    PyObject *channel_promises;
    PyObject *timers;
    PyObject *family;
    PyObject *promises; /* FutureDispatcher */
    long long id;
    long long next_id;
} HouseBase;

typedef struct { /* actor/plan.py */
    PyObject_HEAD
    PyObject *handlers; /* a dict: class of a message -> function(actor, message) */
    char channels;
    char special;
    char short_asks;
    char short_notices;
} PlanBase;

enum { NOT_BARE, BARE_NOTICE, BARE_ASK };

typedef struct { /* context.py */
    PyObject_HEAD
    PyObject *house;
    PyObject *stack;
    PyObject *message;
    PyObject *later; /* a deque */
    PyObject *recycle;
    PyObject *seat; /* whose thread this is */
    long long turns;
    long long messages;
    long long budget;
    char bare; /* what `message` is while its handler runs without a stack */
} ContextBase;

typedef struct { /* schedule/manager.py, schedule/pool.py */
    PyObject_HEAD
    PyObject *rings;    /* ReadyQueue, if this is the seat of the pool's houses */
    PyObject *desk;     /* Desk, if this is the seat of a pool's worker; */
    PyObject *failed;   /* then also whom to tell of an item whose turn raised */
    PyObject *business; /* HouseQueue; nothing for the pool's houses, which wait in its rings */
    PyObject *mounting; /* HouseQueue */
    PyObject *channels; /* HouseQueue */
    PyObject *events;   /* HouseCell: what the thread has been asked to call */
    PyObject *bell;     /* Bell */
    PyObject *flag;     /* AtomicInt: the owner's sleeping flag, see parking.py */
    PyObject *asleep;   /* AtomicInt: how many threads sleep, see crew.py */
    PyObject *closed;   /* AtomicInt */
    PyObject *stopping; /* AtomicInt */
    PyObject *wakeups;  /* AtomicInt: how often the bell was rung */
    long long steal_floor;
    long long stride;
    long long high_replies;
    long long high_events;
    long long workers; /* of the pool, if this is the seat of its houses */
    struct otv_plot *plot; /* plots.c; nothing: what is made for this seat lies anywhere */
} SeatBase;

typedef struct { /* address.py */
    PyObject_HEAD
    PyObject *house;
} AddressBase;

typedef struct { /* message.py */
    PyObject_HEAD
    PyObject *asker;
    PyObject *message;
    long long message_id;
} EnvelopeBase;

typedef struct { /* stack/promise.py */
    PyObject_HEAD
    PyObject *stack;
    PyObject *prev;
    PyObject *next;
    PyObject *outcome;
    PyObject *value;
    PyObject *hash_next;
    PyObject *timer;
    long long aid;
} PromiseBase;

typedef struct { /* stack/stack.py */
    PyObject_HEAD
    PyObject *actor;
    PyObject *house;
    PyObject *state;
    PyObject *next_state;
    PyObject *uncompleted_head;
    PyObject *uncompleted_tail;
    PyObject *completed_head;
    PyObject *completed_tail;
    PyObject *attach;
    PyObject *pool;
    PyObject *content; /* the notice or the ask */
    PyObject *asker;
    long long ask_id;
    char done;
} StackBase;

typedef struct { /* stack/driver.py */
    PyObject_HEAD
    PyObject *coroutine;
    PyObject *awaited;
} CoroutineBase;

static int pool_submit(SeatBase *seat, PyObject *item); /* pool.c */

static inline bool is_some(PyObject *field)
{
    return field != NULL && field != Py_None;
}

/* Put a value into a field; the field takes the reference over. */
static inline void put_field(PyObject **field, PyObject *value)
{
    PyObject *before = *field;
    *field = value;
    Py_XDECREF(before);
}

static inline int64_t box_size(HouseBase *house, int box)
{
    return otv_size(mailbox_of(&house->cell, box));
}

/* The collector's three functions for a type whose object fields stand side by side. The trashcan
 * keeps long chains (a promise's neighbours, a stack's promises) from eating the C stack. */
#define OTV_OBJECT(Type, first, last)                                                            \
    static int Type##_traverse(Type *self, visitproc visit, void *arg)                           \
    {                                                                                            \
        Py_VISIT(Py_TYPE(self));                                                                 \
        for (PyObject **field = &self->first; field <= &self->last; field++)                     \
            Py_VISIT(*field);                                                                    \
        return 0;                                                                                \
    }                                                                                            \
    static int Type##_clear(Type *self)                                                          \
    {                                                                                            \
        for (PyObject **field = &self->first; field <= &self->last; field++)                     \
            Py_CLEAR(*field);                                                                    \
        return 0;                                                                                \
    }                                                                                            \
    OTV_DEALLOC(Type)

#define OTV_DEALLOC(Type)                                                                        \
    static void Type##_dealloc(Type *self)                                                       \
    {                                                                                            \
        PyTypeObject *type = Py_TYPE(self);                                                      \
        PyObject_GC_UnTrack(self);                                                               \
        Py_TRASHCAN_BEGIN(self, Type##_dealloc)                                                  \
        Type##_clear(self);                                                                      \
        type->tp_free((PyObject *)self);                                                         \
        Py_DECREF(type);                                                                         \
        Py_TRASHCAN_END                                                                          \
    }

#define OTV_GC_SLOTS(Type)                                                                       \
    {Py_tp_traverse, Type##_traverse}, {Py_tp_clear, Type##_clear}, {Py_tp_dealloc, Type##_dealloc}

#define OTV_FLAGS                                                                                \
    (Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE)

#define OBJECT(Type, name) {#name, T_OBJECT, offsetof(Type, name), 0, NULL}
#define NUMBER(Type, name) {#name, T_LONGLONG, offsetof(Type, name), 0, NULL}
#define TRUTH(Type, name) {#name, T_BOOL, offsetof(Type, name), 0, NULL}

#endif
