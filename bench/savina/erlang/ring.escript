#!/usr/bin/env escript
%% A hundred processes pass a token around. Argument: hops. Prints microseconds in all.
-mode(compile).

main([Text]) ->
    N = list_to_integer(Text),
    Main = self(),
    First = spawn(fun() -> receive {next, Next} -> node_loop(Next, Main) end end),
    Last = lists:foldl(
        fun(_, Next) -> spawn(fun() -> node_loop(Next, Main) end) end, First, lists:seq(1, 99)),
    First ! {next, Last},
    Began = erlang:monotonic_time(microsecond),
    First ! N,
    receive done -> ok end,
    io:format("~p~n", [erlang:monotonic_time(microsecond) - Began]).

node_loop(Next, Main) ->
    receive
        0 -> Main ! done;
        N -> Next ! N - 1, node_loop(Next, Main)
    end.
