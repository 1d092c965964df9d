#!/usr/bin/env escript
%% Two processes throw a ball to and fro. Argument: round trips. Prints microseconds in all.
-mode(compile).

main([Text]) ->
    N = list_to_integer(Text),
    Wall = spawn(fun wall/0),
    Began = erlang:monotonic_time(microsecond),
    play(Wall, N),
    io:format("~p~n", [erlang:monotonic_time(microsecond) - Began]).

wall() ->
    receive {ball, From} -> From ! ball, wall() end.

play(_, 0) -> ok;
play(Wall, N) ->
    Wall ! {ball, self()},
    receive ball -> play(Wall, N - 1) end.
