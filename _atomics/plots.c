/* Plots: where in memory the actors of a thread lie.
 *
 * Whoever builds actors deals them out to the threads in turn: one here, one there. The allocator
 * knows nothing of that and lays them side by side, so that each has neighbours of other threads.
 * A processor reads ahead: going through one actor's cache lines it fetches those behind them, too,
 * which another core is writing to at that moment. Pairs of actors that do nothing but send ran at
 * two thirds of their speed beside a second thread that way, and padding them to whole cache lines,
 * or to whole kilobytes, changed nothing. What helps is to lie among one's own: many actors
 * of one thread, then many of another.
 *
 * So a seat keeps a row of *blanks* for each class of actor, for houses and for addresses: objects
 * made in one go, one behind the other, with nobody's values in them yet. While a seat's `make` runs
 * an actor's factory, whatever the factory makes of these classes comes from that seat's rows.
 *
 * A blank is an object as tp_alloc returns it, but hidden from the collector. It has one reference,
 * the row's; nobody else has ever seen it. Not used, it goes without __del__, as it has not lived.
 *
 * Not a door between threads: nothing of the walk of a message comes here. Threads that build for one
 * seat at the same time share its rows; a spin lock is around every look at them, and no Python, no
 * allocation and no wait is under it.
 *
 * Without the GIL only: with it one thread runs at a time, and neighbours do no harm.
 */

enum {
    PLOT_ROWS = 16,     /* classes a seat has rows for; more of them are laid anywhere */
    ROW_FIRST = 32,     /* blanks in a class's first row: next to nothing for a few actors, */
    ROW_MOST = 256,     /* and each row is twice as long as the one before, up to this: */
    ROW_BYTES = 1 << 16, /* where two threads' rows meet, neighbours still do harm */
    ROW_LEAST = 8,
    SETTLED_KEYS = 30, /* see plot_take */
};

typedef struct {
    PyTypeObject *type; /* owned; NULL: a free row */
    PyObject **blank;   /* blank[next] to blank[end - 1] are left */
    int next, end;
    int longest; /* how long its rows have been */
    int made;    /* how many of a class with a __dict__ have been made here before the first row */
} plot_row;

struct otv_plot {
    otv_cell lock;
    plot_row row[PLOT_ROWS];
};

/* The seat for which this thread is making an actor; borrowed from whoever called its `make`. */
static _Thread_local SeatBase *this_ground;

static int longer(int longest, PyTypeObject *type)
{
    Py_ssize_t room = ROW_BYTES / type->tp_basicsize;
    int most = room > ROW_MOST ? ROW_MOST : room < ROW_LEAST ? ROW_LEAST : (int)room;
    int wanted = longest == 0 ? ROW_FIRST : 2 * longest;
    return wanted < most ? wanted : most;
}

/* Never tracked, no field set: there is nothing to finalize, to clear or to untrack. */
static void drop_blanks(PyObject **blank, int count)
{
    for (int i = 0; i < count; i++) {
        PyTypeObject *type = Py_TYPE(blank[i]);
        PyObject_GC_Del(blank[i]);
        Py_DECREF(type);
    }
}

static plot_row *row_of(struct otv_plot *plot, PyTypeObject *type)
{
    plot_row *spare = NULL;
    for (plot_row *row = plot->row; row < plot->row + PLOT_ROWS; row++) {
        if (row->type == type)
            return row;
        if (spare == NULL && row->type == NULL)
            spare = row;
    }
    if (spare != NULL)
        spare->type = (PyTypeObject *)Py_NewRef((PyObject *)type);
    return spare;
}

enum plot_answer { TAKEN, LAY_A_ROW, ANYWHERE };

/* The next blank of a class, if there is one; else how long a row to lay. */
static enum plot_answer plot_take(struct otv_plot *plot, PyTypeObject *type, PyObject **blank,
                                  int *wanted)
{
    enum plot_answer answer = ANYWHERE;
    otv_lock(&plot->lock, current_thread_id());
    plot_row *row = row_of(plot, type);
    if (row == NULL) {
        ;
    } else if ((type->tp_flags & Py_TPFLAGS_INLINE_VALUES) && row->made < SETTLED_KEYS) {
        /* CPython learns from the first thirty instances which attributes the others will have, and
         * counts an instance when it is made. Blanks would use these up before any attribute is
         * set, and all later instances would carry a dict of their own. */
        row->made++;
    } else if (row->next < row->end) {
        *blank = row->blank[row->next++];
#ifdef Py_GIL_DISABLED
        /* Whoever laid the row may sleep for hours: from now on the object is its taker's to count. */
        (*blank)->ob_tid = _Py_ThreadId();
#endif
        answer = TAKEN;
    } else {
        *wanted = longer(row->longest, type);
        answer = LAY_A_ROW;
    }
    otv_unlock(&plot->lock);
    return answer;
}

/* Put a row in place, and give back what is left of the one before: nothing but the array, unless
 * another thread has laid a row meanwhile. Then that one stays, and ours is what is given back. */
static void plot_lay(struct otv_plot *plot, PyTypeObject *type, PyObject **blank, int count)
{
    otv_lock(&plot->lock, current_thread_id());
    plot_row *row = row_of(plot, type);
    if (row != NULL && row->next == row->end) {
        PyObject **before = row->blank;
        row->blank = blank;
        row->next = 1; /* the first is the caller's */
        row->end = row->longest = count;
        blank = before;
        count = 1;
    }
    otv_unlock(&plot->lock);
    if (count > 1)
        drop_blanks(blank + 1, count - 1);
    PyMem_Free(blank);
}

/* Blanks one behind the other, of which the first is the caller's. */
static PyObject *plot_fill(struct otv_plot *plot, PyTypeObject *type, int wanted)
{
    int count = 0;
    PyObject **blank = PyMem_New(PyObject *, wanted);
    if (blank == NULL)
        return PyErr_NoMemory();
    while (count < wanted && (blank[count] = PyType_GenericAlloc(type, 0)) != NULL)
        PyObject_GC_UnTrack(blank[count++]);
    if (count == 0) {
        PyMem_Free(blank);
        return NULL;
    }
    if (count < wanted)
        PyErr_Clear(); /* no memory for all of them, but for some */
    PyObject *first = blank[0];
    plot_lay(plot, type, blank, count);
    return first;
}

/* tp_alloc of actors, houses and addresses. */
static PyObject *plot_alloc(PyTypeObject *type, Py_ssize_t items)
{
    SeatBase *seat = this_ground;
    PyObject *object = NULL;
    int wanted;
    enum plot_answer answer = ANYWHERE;
    if (seat != NULL)
        answer = plot_take(seat->plot, type, &object, &wanted);
    if (answer == ANYWHERE)
        return PyType_GenericAlloc(type, items);
    if (answer == LAY_A_ROW)
        object = plot_fill(seat->plot, type, wanted);
    if (object != NULL)
        PyObject_GC_Track(object);
    return object;
}

/* lay_in_plots(class): from now on its instances are laid where they are made for. */
static PyObject *native_lay_in_plots(PyObject *Py_UNUSED(module), PyObject *class)
{
    PyTypeObject *type = (PyTypeObject *)class;
    if (!PyType_Check(class) || !PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)
        || PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE))
        return PyErr_Format(PyExc_TypeError, "lay_in_plots takes a class, not %.80R", class);
#ifdef Py_GIL_DISABLED
    if (type->tp_alloc == PyType_GenericAlloc && PyType_IS_GC(type) && type->tp_itemsize == 0)
        type->tp_alloc = plot_alloc;
#endif
    Py_RETURN_NONE;
}

/* give_ground(): from now on the seat has a plot. */
static PyObject *SeatBase_give_ground(SeatBase *self, PyObject *Py_UNUSED(ignored))
{
    if (self->plot == NULL && (self->plot = PyMem_Calloc(1, sizeof(struct otv_plot))) == NULL)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

/* make(factory, *args, **kwargs) */
static PyObject *SeatBase_make(SeatBase *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    if (n < 1)
        return PyErr_Format(PyExc_TypeError, "make takes (factory, *args, **kwargs)");
    SeatBase *before = this_ground;
    this_ground = self->plot != NULL ? self : NULL;
    PyObject *made = PyObject_Vectorcall(args[0], args + 1, (size_t)(n - 1), names);
    this_ground = before;
    return made;
}

/* What a row owns is seen by the collector through the seat: a class may hold the system that holds
 * the seat. A blank is hidden, so its one reference, to its class, counts as the seat's. */
static int plot_traverse(struct otv_plot *plot, visitproc visit, void *arg)
{
    for (int i = 0; plot != NULL && i < PLOT_ROWS; i++) {
        plot_row *row = &plot->row[i];
        Py_VISIT((PyObject *)row->type);
        for (int left = row->next; left < row->end; left++)
            Py_VISIT((PyObject *)Py_TYPE(row->blank[left]));
    }
    return 0;
}

/* The last one who knows the seat, or the collector: nobody builds for it any more. */
static void plot_free(SeatBase *seat)
{
    struct otv_plot *plot = seat->plot;
    seat->plot = NULL;
    for (int i = 0; plot != NULL && i < PLOT_ROWS; i++) {
        plot_row *row = &plot->row[i];
        drop_blanks(row->blank + row->next, row->end - row->next);
        PyMem_Free(row->blank);
        Py_XDECREF((PyObject *)row->type);
    }
    PyMem_Free(plot);
}
