#!/usr/bin/env escript
%% One process sends to sixty in turn; each counts its share. Argument: messages in all.
-mode(compile).

main([Text]) ->
    Share = max(1, list_to_integer(Text) div 60),
    Main = self(),
    Workers = [spawn(fun() -> count(Share, Main) end) || _ <- lists:seq(1, 60)],
    Began = erlang:monotonic_time(microsecond),
    fork(Workers, Share),
    [receive done -> ok end || _ <- Workers],
    io:format("~p~n", [erlang:monotonic_time(microsecond) - Began]).

fork(_, 0) -> ok;
fork(Workers, N) ->
    [Worker ! 1 || Worker <- Workers],
    fork(Workers, N - 1).

count(0, Main) -> Main ! done;
count(N, Main) ->
    receive 1 -> count(N - 1, Main) end.
