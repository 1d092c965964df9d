/* Running a stack in the native lane: from its start, or from where it waited, to where it waits or
 * ends. The runner only. The twin is house/engine.py. */

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
    if (stack->state != known.start && !is_some(context->recycle)) { /* as engine._forget_state */
        if (PyObject_TypeCheck(stack->state, coroutine_base_type))
            Py_CLEAR(((CoroutineBase *)stack->state)->awaited);
        put_field(&stack->state, Py_NewRef(known.start));
    }
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
    if (!is_some(state->coroutine)) {
        PyErr_SetString(PyExc_TypeError, "this CoroutineState has no coroutine");
        return -1;
    }
    PyObject *coroutine = Py_NewRef(state->coroutine); /* the field is the handler's to reach */
    PySendResult sent = PyIter_Send(coroutine, Py_None, &item);
    Py_DECREF(coroutine);
    switch (sent) {
    case PYGEN_RETURN: {
        int failed = 0;
        if (stack->done)
            failed = call_and_drop(PyObject_CallOneArg(known.refuse_finish, (PyObject *)stack));
        else if (replies(stack))
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
                   && is_some(stack->uncompleted_head) && !stack->done) {
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
