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
run("timers", N) -> timers(N);
run("bank", N) -> bank(max(1, N div 8));
run("sieve", N) -> sieve(N);
run("latency", N) -> latency(N).

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

wall() -> receive {ball, N, From} -> From ! {ball, N}, wall() end.

%% A ball is the number of round trips that are left; any other than the one thrown is a crash.
play(_, 0) -> 0;
play(Wall, N) ->
    Wall ! {ball, N, self()},
    receive {ball, Back} -> N = Back, play(Wall, N - 1) end.

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
    Hops = N div 100 * 100 + 37,
    First = spawn(fun() -> receive {next, Next} -> pass(Next, 0, Main) end end),
    Second = lists:foldl(
        fun(I, Next) -> spawn(fun() -> pass(Next, I, Main) end) end, First, lists:seq(99, 1, -1)),
    First ! {next, Second},
    timed(37, Hops, fun() -> First ! Hops, sum() end).

%% The result is the node where the token's way ends.
pass(Next, Index, Main) ->
    receive
        0 -> Main ! {sum, Index};
        N -> Next ! N - 1, pass(Next, Index, Main)
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

%% ---- bank: tellers ask accounts, which ask other accounts before they answer

bank(Share) ->
    Main = self(),
    Targets = list_to_tuple([spawn(fun() -> account(0, none) end) || _ <- lists:seq(1, 16)]),
    Sources = list_to_tuple([spawn(fun() -> account(0, Targets) end) || _ <- lists:seq(1, 16)]),
    Measured = timed(8 * Share, 8 * Share, fun() ->
        [spawn(fun() -> Main ! {sum, teller(Sources, Share, 0)} end) || _ <- lists:seq(1, 8)],
        lists:sum([sum() || _ <- lists:seq(1, 8)])
    end),
    0 = lists:sum([call(A, balance) || A <- tuple_to_list(Sources) ++ tuple_to_list(Targets)]),
    Measured.

%% As gen_server:call does it: see ask_reply.
call(Server, Question) ->
    Ref = monitor(process, Server),
    Server ! {Question, self(), Ref},
    receive {Ref, Reply} -> demonitor(Ref, [flush]), Reply end.

teller(_, 0, Moved) -> Moved;
teller(Sources, N, Moved) ->
    Source = element(rand:uniform(16), Sources),
    teller(Sources, N - 1, Moved + call(Source, {debit, 1, rand:uniform(16)})).

account(Balance, Targets) ->
    receive
        {{debit, Amount, To}, From, Ref} ->
            From ! {Ref, call(element(To, Targets), {credit, Amount})},
            account(Balance - Amount, Targets);
        {{credit, Amount}, From, Ref} -> From ! {Ref, Amount}, account(Balance + Amount, Targets);
        {balance, From, Ref} -> From ! {Ref, Balance}, account(Balance, Targets)
    end.

%% ---- sieve: filters of ten primes each; the end carries how many there are so far

sieve(N) ->
    {Messages, Wanted} = sieve_messages(lists:seq(3, N - 1, 2), [[]], 0),
    Main = self(),
    First = spawn(fun() -> filter([], none, Main) end),
    timed(Wanted, Messages, fun() ->
        spawn(fun() -> [First ! I || I <- lists:seq(3, N - 1, 2)], First ! {done, 0} end),
        sum()
    end).

filter(Primes, Next, Main) ->
    receive
        {done, Found} when Next =:= none -> Main ! {sum, Found + length(Primes)};
        {done, Found} -> Next ! {done, Found + length(Primes)};
        I ->
            case divided(I, Primes) of
                true -> filter(Primes, Next, Main);
                false when length(Primes) < 10 -> filter(Primes ++ [I], Next, Main);
                false when Next =:= none ->
                    New = spawn(fun() -> filter([], none, Main) end),
                    New ! I,
                    filter(Primes, New, Main);
                false -> Next ! I, filter(Primes, Next, Main)
            end
    end.

divided(_, []) -> false;
divided(I, [Prime | _]) when I rem Prime =:= 0 -> true;
divided(I, [_ | Primes]) -> divided(I, Primes).

%% {how many messages it takes, how many primes there are}, from a sieve without processes.
sieve_messages([], Filters, Messages) ->
    {Messages + length(Filters), lists:sum([length(Primes) || Primes <- Filters])};
sieve_messages([I | More], Filters, Messages) ->
    {Passed, Now} = sift(I, Filters),
    sieve_messages(More, Now, Messages + Passed).

sift(I, []) -> {1, [[I]]};
sift(I, [Primes | Filters]) ->
    case divided(I, Primes) of
        true -> {1, [Primes | Filters]};
        false when length(Primes) < 10 -> {1, [Primes ++ [I] | Filters]};
        false -> {Passed, Rest} = sift(I, Filters), {Passed + 1, [Primes | Rest]}
    end.

%% ---- latency: an open loop at half the saturated rate, as in latency.py

latency(N) ->
    Entered = now_us(),
    Server = spawn(fun echo/0),
    Saturated = lists:max(window(Server, N, 0, 0, now_us(), [])),
    Gap = 2 * Saturated / N,
    Main = self(),
    Began = now_us() + 1000,
    spawn(fun() -> pace(Server, Main, Began, Gap, 0, N) end),
    Took = lists:sort([receive {answer, Due} -> now_us() - Due end || _ <- lists:seq(1, N)]),
    At = fun(Part) -> lists:nth(min(N, trunc(Part * N) + 1), Took) end,
    {At(0.5), 1, [{"p99", At(0.99) / 1.0e6}, {"p999", At(0.999) / 1.0e6},
        {"rate", N / Saturated / 2 * 1.0e6}, {"wall", (now_us() - Entered) / 1.0e6}]}.

now_us() -> erlang:monotonic_time(nanosecond) / 1000.

echo() -> receive {ask, From, Due} -> From ! {answer, Due}, echo() end.

%% Eight asks on their way at once; how long after the beginning each answer was there.
window(_, N, _, N, _, Took) -> Took;
window(Server, N, Sent, Heard, Began, Took) when Sent < N, Sent - Heard < 8 ->
    Server ! {ask, self(), Began},
    window(Server, N, Sent + 1, Heard, Began, Took);
window(Server, N, Sent, Heard, Began, Took) ->
    receive {answer, Began} ->
        window(Server, N, Sent, Heard + 1, Began, [now_us() - Began | Took])
    end.

pace(_, _, _, _, N, N) -> ok;
pace(Server, Main, Began, Gap, I, N) ->
    Due = Began + I * Gap,
    until(Due),
    Server ! {ask, Main, Due},
    pace(Server, Main, Began, Gap, I + 1, N).

until(Due) ->
    Wait = Due - now_us(),
    if
        Wait > 2000 -> timer:sleep(trunc(Wait / 1000) - 1), until(Due);
        Wait > 0 -> until(Due);
        true -> ok
    end.
