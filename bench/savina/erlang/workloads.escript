#!/usr/bin/env escript
%%! +P 20000000
%% The workloads as Erlang processes: workloads.escript NAME N
%%
%% Prints one line of JSON. Only the work is timed, not the start of the machine. Each program
%% checks its result as the Python ones do, and crashes, with a status other than 0, if it is wrong.
-mode(compile).

main([Name, Text]) ->
    {Microseconds, Operations, More} = run(Name, list_to_integer(Text)),
    io:format("{\"seconds\": ~w, \"operations\": ~w~s}~n", [
        Microseconds / 1.0e6, Operations, [io_lib:format(", \"~s\": ~w", [K, V]) || {K, V} <- More]
    ]).

run("counting", N) -> fan_in(1, N);
run("fan-in", N) -> fan_in(8, N div 8);
run("ping-pong", N) -> ping_pong(N);
run("ask-reply", N) -> ask_reply(N);
run("ring", N) -> ring(N);
run("fork-join", N) -> fork_join(max(1, N div 60));
run("fork-join-create", N) -> create(N);
run("big", N) -> big(max(1, N div 64));
run("chameneos", N) -> chameneos(N);
run("cpu-map", N) -> cpu_map(8, max(1, N div 8));
run("cpu-map-one", N) -> cpu_map(1, N);
run("many", N) -> many(N);
run("timers", N) -> timers(N).

%% {Microseconds, Operations, []} of a fun that must return Wanted.
timed(Wanted, Operations, Work) ->
    Began = erlang:monotonic_time(microsecond),
    Wanted = Work(),
    {erlang:monotonic_time(microsecond) - Began, Operations, []}.

%% An adder of what it is sent, until it has as much as it wants.
adder(Wanted) ->
    Main = self(),
    spawn(fun() -> add(0, Wanted, Main) end).

add(Wanted, Wanted, Main) -> Main ! {sum, Wanted};
add(Sum, Wanted, Main) -> receive N -> add(Sum + N, Wanted, Main) end.

sum() -> receive {sum, Sum} -> Sum end.

%% ---- counting and fan-in: producers send numbers to one adder

fan_in(Producers, Each) ->
    Adder = adder(Producers * Each),
    timed(Producers * Each, Producers * Each, fun() ->
        [spawn(fun() -> produce(Adder, Each) end) || _ <- lists:seq(1, Producers)],
        sum()
    end).

produce(_, 0) -> ok;
produce(Adder, N) -> Adder ! 1, produce(Adder, N - 1).

%% ---- ping-pong, ask-reply, ring: one message in flight

ping_pong(N) ->
    Wall = spawn(fun wall/0),
    Main = self(),
    timed(0, N, fun() ->
        spawn(fun() -> Main ! {sum, play(Wall, N)} end),
        sum()
    end).

wall() -> receive {ball, From} -> From ! ball, wall() end.

play(_, 0) -> 0;
play(Wall, N) ->
    Wall ! {ball, self()},
    receive ball -> play(Wall, N - 1) end.

%% As gen_server:call does it: a monitor makes the reference, so a dead server is noticed.
ask_reply(N) ->
    Server = spawn(fun server/0),
    Main = self(),
    timed(N, N, fun() ->
        spawn(fun() -> Main ! {sum, ask(Server, N, 0)} end),
        sum()
    end).

server() -> receive {ask, From, Ref} -> From ! {Ref, 1}, server() end.

ask(_, 0, Total) -> Total;
ask(Server, N, Total) ->
    Ref = monitor(process, Server),
    Server ! {ask, self(), Ref},
    receive {Ref, Reply} -> demonitor(Ref, [flush]), ask(Server, N - 1, Total + Reply) end.

ring(N) ->
    Main = self(),
    First = spawn(fun() -> receive {next, Next} -> pass(Next, Main) end end),
    Last = lists:foldl(
        fun(_, Next) -> spawn(fun() -> pass(Next, Main) end) end, First, lists:seq(1, 99)),
    First ! {next, Last},
    timed(0, N, fun() -> First ! N, sum() end).

pass(Next, Main) ->
    receive
        0 -> Main ! {sum, 0};
        N -> Next ! N - 1, pass(Next, Main)
    end.

%% ---- fork-join: throughput, and creation

fork_join(Share) ->
    Adder = adder(60 * Share),
    Workers = [spawn(fun() -> work(0, Share, Adder) end) || _ <- lists:seq(1, 60)],
    timed(60 * Share, 60 * Share, fun() ->
        spawn(fun() -> fork(Workers, Share) end),
        sum()
    end).

fork(_, 0) -> ok;
fork(Workers, N) ->
    [Worker ! 1 || Worker <- Workers],
    fork(Workers, N - 1).

work(Share, Share, Adder) -> Adder ! Share;
work(Sum, Share, Adder) -> receive N -> work(Sum + N, Share, Adder) end.

create(N) ->
    Adder = adder(N),
    timed(N, N, fun() ->
        [spawn(fun() -> work(0, 1, Adder) end) ! 1 || _ <- lists:seq(1, N)],
        sum()
    end).

%% ---- big: sixty-four processes, each pinging a random other

big(Share) ->
    Adder = adder(64 * Share),
    Neighbours = [spawn(fun() -> meet(Share, Adder) end) || _ <- lists:seq(1, 64)],
    All = list_to_tuple(Neighbours),
    timed(64 * Share, 64 * Share, fun() ->
        [Neighbour ! {go, All} || Neighbour <- Neighbours],
        sum()
    end).

meet(Share, Adder) ->
    receive {go, All} -> self() ! pong, neighbour(Share, Share, All, Adder) end.

neighbour(Left, Share, All, Adder) ->
    receive
        {ping, From} -> From ! pong, neighbour(Left, Share, All, Adder);
        pong when Left > 0 ->
            element(rand:uniform(64), All) ! {ping, self()},
            neighbour(Left - 1, Share, All, Adder);
        pong -> Adder ! Share, neighbour(Left, Share, All, Adder)
    end.

%% ---- chameneos: twenty creatures meet in pairs at one mall

chameneos(N) ->
    Adder = adder(2 * N),
    Mall = spawn(fun() -> mall(N) end),
    timed(2 * N, N, fun() ->
        [spawn(fun() -> creature(Mall, I rem 3, 0, Adder) end) || I <- lists:seq(0, 19)],
        sum()
    end).

mall(0) -> receive {meet, Who, _} -> Who ! stop, mall(0) end;
mall(N) ->
    receive {meet, One, ColourOne} ->
        receive {meet, Two, ColourTwo} ->
            One ! {mate, ColourTwo},
            Two ! {mate, ColourOne},
            mall(N - 1)
        end
    end.

creature(Mall, Colour, Met, Adder) ->
    Mall ! {meet, self(), Colour},
    receive
        stop -> Adder ! Met;
        {mate, Colour} -> creature(Mall, Colour, Met + 1, Adder);
        {mate, Other} -> creature(Mall, 3 - Colour - Other, Met + 1, Adder)
    end.

%% ---- CPU map: the same arithmetic, ten thousand steps a chunk

cpu_map(Mappers, Each) ->
    N = Mappers * Each,
    Wanted = lists:sum([crunch(I, 10000) || I <- lists:seq(0, N - 1)]),
    Main = self(),
    timed(Wanted, N, fun() ->
        [spawn(fun() -> Main ! {sum, chunks(M * Each, Each, 0)} end)
            || M <- lists:seq(0, Mappers - 1)],
        lists:sum([sum() || _ <- lists:seq(1, Mappers)])
    end).

chunks(_, 0, Sum) -> Sum;
chunks(Seed, N, Sum) -> chunks(Seed + 1, N - 1, Sum + crunch(Seed, 10000)).

crunch(X, 0) -> X;
crunch(X, N) -> crunch((X * 109 + 89) band 255, N - 1).

%% ---- many: spawn, one message each, bytes of resident memory a process

many(N) ->
    Adder = adder(N),
    Before = resident(),
    Began = erlang:monotonic_time(microsecond),
    Kept = [spawn(fun() -> keep(Adder) end) || _ <- lists:seq(1, N)],
    Spawned = erlang:monotonic_time(microsecond) - Began,
    [Process ! 1 || Process <- Kept],
    N = sum(),
    Spent = erlang:monotonic_time(microsecond) - Began,
    Bytes = (resident() - Before) / N,
    N = length([Process || Process <- Kept, is_process_alive(Process)]),
    {Spent, N, [{"bytes", Bytes}, {"spawn", Spawned / 1.0e6}]}.

keep(Adder) -> receive N -> Adder ! N, keep(Adder) end.

resident() ->
    {ok, Line} = file:read_file("/proc/self/statm"),
    [_, Pages | _] = string:split(Line, " ", all),
    4096 * binary_to_integer(Pages).

%% ---- timers: processor time, as for everybody else

timers(N) ->
    Share = max(1, N div 10),
    statistics(runtime),
    {Before, _} = statistics(runtime),
    Main = self(),
    [spawn(fun() -> alarm(Share), Main ! {sum, Share} end) || _ <- lists:seq(1, 10)],
    Total = 10 * Share,
    Total = lists:sum([sum() || _ <- lists:seq(1, 10)]),
    {After, _} = statistics(runtime),
    {(After - Before) * 1000, Total, []}.

alarm(Share) ->
    [erlang:send_after(rand:uniform(100) - 1, self(), ring) || _ <- lists:seq(1, Share)],
    [receive ring -> ok end || _ <- lists:seq(1, Share)].
