//! Scripts and Click's output for them: every expected text is that of Click 2.1 for the same
//! configuration.

use crate::testing::Run;

/// Returns the output of a configuration, in order, standard error included.
fn output(text: &str) -> String {
    let mut run = Run::new(text).frame_limit(1);
    run.run();
    run.output()
}

#[test]
fn handlers_answer_and_refuse() {
    let printed = output(
        r##"Script(print $(div 10 3), print $(add 1.5 2), print $(sub 5), print $(add x), print $(idiv 7 2), write c.nope, print $?, write c.reset, print $?, print c.count, print "c.count", print '"c.count"', read c.count, print $(c.nope), print $(nope.nope), print $nope, print $(in foo bar foo), print $(readable c.count c.reset), print $(writable c.reset), print $(length abcdef), print $(unquote "\"x\""), print $(c.count 5), print $(cat /nonexist), print $(kill FOO), print $(get zz), write set q 5, print $q, print $(first a b c), goto foo false, wait 1x, print notreached, label foo)
c::Counter; Idle->c->Discard; Script(wait 1s, stop)"##,
    );
    assert_eq!(
        printed,
        r##"3.33333333333
3.5
5
While executing 'Script@1 :: Script':
  expected list of numbers
3
  no 'c.nope' write handler
0
0
0
c.count
"c.count"
c.count:
0
  no 'c.nope' read handler
$(c.nope)  no element named 'nope'
$(nope.nope)$nope
true
false
true
6
"x"
  read handler 'c.count' does not take parameters
$(c.count 5)  /nonexist: No such file or directory
  bad SIGNO
  undefined variable 'zz'
5
a
  syntax error at 'wait'
"##,
    );
}

#[test]
fn instructions_and_types() {
    let printed = output(
        r##"c::Counter; Idle->c->Discard;
Script(read c.ports, read c.name, read c.config, print hi, print, print "", printn a, print b, set x " a b ", print $x, print "[$x]", setq x " a b ", print $x, print "[$x]", print '$x', print $(p.run a "b c" d), write p.run x y, print $?, write e.run, print $?, write st.nope, set y $(e.run), print "y=$y", print $($y), goto stop)
p::Script(TYPE PASSIVE, print "args=$args 1=$1 2=$2 #=$# w=$write 0=$0", return $2)
e::Script(TYPE PASSIVE, set z 1, errorq "bad thing $z")
Script(wait 1, print "one", wait 1s, print "two", stop)
px::Script(TYPE PROXY, goto nota $(ne $0 a), returnq "you called 'a'", label nota, error bad handler)
Script(print $(px.a), print $(px.b), print $(px.c 4), print px.a, write px.q 3, print $?, read px.a)
ex::Script(TYPE PASSIVE, export v 12, exportq w "q r", init n $v)
Script(print $(ex.v), print $(ex.w), print ex.v, write s.goto foo)
DriverManager(wait_stop 1, print "dm", wait 0.1, print "dm2", write stop 1, wait_stop, print "dm3")"##,
    );
    assert_eq!(
        printed,
        r##"c.ports:
1 input
push~	-	Idle@2 [0]
1 output
push~	-	[0] Discard@3

c.name:
c
c.config:

While executing 'Script@4 :: Script':
  no 'hi' read handler


  no 'a' read handler
  no 'b' read handler
" a b "
[" a b "]
 a b 
[ a b ]
$x
args=a "b c" d 1=a 2="b c" #=3 w=false 0=run
"b c"
args=x y 1=x 2=y #=2 w=true 0=run
0
  While calling 'e.run':
    bad thing 1
-1
  no element named 'st'
  bad thing 1
y=$(e.run)
  no element named '$(e'
$($(e.run))you called 'a'
While executing 'Script@9 :: Script':
  bad handler
  bad handler
you called 'a'
  While calling 'px.q 3':
    bad handler
-1
px.a:
you called 'a'
12
q r
12
While executing 'Script@11 :: Script':
  no element named 's'
one
two
dm
dm2
dm3
"##,
    );
}

#[test]
fn a_driver_manager_decides_when_the_run_ends() {
    let printed = output(
        r##"DriverManager(wait_stop 2, print "dm", wait 0.1, print "dm2", write stop 1, wait_stop, print "dm3"); Script(wait 1, print "a", stop); Script(wait 2, print "b", stop); Script(wait 3, print "c", stop)"##,
    );
    assert_eq!(
        printed,
        r##"a
b
dm
dm2
dm3
"##,
    );
}

#[test]
fn an_endless_loop_is_given_up() {
    let printed = output(
        r##"s0 :: Script(label a, goto a);
s1 :: Script(wait 1, stop);"##,
    );
    assert_eq!(
        printed,
        r##"s0 :: Script: too many jumps, giving up
"##,
    );
}

#[test]
fn substitution_nests() {
    let printed = output(
        r##"define($j sub)
	Script(print $(add 1 2),
		set i add,
		print $($i 3 4),
		print $($(s.run).name),
		print $($j 8 5),
		print $($j.run),
		stop)
	s :: Script(TYPE PASSIVE,
		return i2)
	sub :: Script(TYPE PASSIVE, return Hello)
	i1, i2 :: Idle"##,
    );
    assert_eq!(
        printed,
        r##"3
7
i2
3
Hello
"##,
    );
}

#[test]
fn scripts_call_each_other() {
    let printed = output(
        r##"s0 :: Script(
   print $(add 1 2 3), print $(htonl $(ntohl 6)), write set foovar foo bar baz, print $(shift foovar), print $(shift foovar), print $(get foovar), print $(s.get a), write s.set b 4, print $(s.get b), print s0.add, set lp 0, label l, set lp $(add $lp 1), wait 0.1, goto l $(lt $lp 3), print $lp, goto end true, print "no");
s :: Script(TYPE PASSIVE, init a 7, print $(s0.add 1 2), return $(s0.get lp));
Script(wait 0.25, print $(s.run), write s0.step, wait 1, write s0.step 5, write s.step foo, write s0.goto nolabel, write s0.goto l, stop)"##,
    );
    assert_eq!(
        printed,
        r##"6
6
foo
bar
baz
7
4
0
3
3
3
While executing 'Script@3 :: Script':
  While calling 's.step foo':
    syntax error
  While calling 's0.goto nolabel':
    jump to nonexistent label
"##,
    );
}

#[test]
fn an_element_at_work_can_be_read_by_the_script_it_calls() {
    let printed = output(
        r##"InfiniteSource(LIMIT 100, STOP true)
  -> k :: Counter(COUNT_CALL 5 s.run)
  -> c :: Counter
  -> d :: Discard
s :: Script(TYPE PASSIVE, print "k=$(k.count) c=$(c.count) d=$(d.count)", write k.reset)
DriverManager(wait_stop, print c.count, print k.count)"##,
    );
    assert_eq!(
        printed,
        r##"k=5 c=4 d=4
k=5 c=9 d=9
k=5 c=14 d=14
k=5 c=19 d=19
k=5 c=24 d=24
k=5 c=29 d=29
k=5 c=34 d=34
k=5 c=39 d=39
k=5 c=44 d=44
k=5 c=49 d=49
k=5 c=54 d=54
k=5 c=59 d=59
k=5 c=64 d=64
k=5 c=69 d=69
k=5 c=74 d=74
k=5 c=79 d=79
k=5 c=84 d=84
k=5 c=89 d=89
k=5 c=94 d=94
k=5 c=99 d=99
100
0
"##,
    );
}

#[test]
fn packets_leave_by_the_output_that_is_returned() {
    let printed = output(
        r##"InfiniteSource(LIMIT 6, STOP true) -> sx :: Script(TYPE PACKET, init i 0, set j $i, set i $(add $i 1), set i $(if $(eq $i 3) 0 $i), return $j) -> a::Counter -> Discard;
sx [1] -> b::Counter->Discard;
DriverManager(pause, print "$(a.count) $(b.count)", print list, print sx.ports, print a.ports, print requirements, print driver)"##,
    );
    assert_eq!(
        printed,
        r##"2 2
7
InfiniteSource@1
sx
a
Discard@4
b
Discard@6
DriverManager@7
1 input
push~	-	InfiniteSource@1 [0]
2 outputs
push~	-	[0] a
push	-	[0] b
1 input
push~	-	sx [0]
1 output
push~	-	[0] Discard@4

userlevel
"##,
    );
}

#[test]
fn wrong_scripts_are_refused() {
    for (text, expected) in [
        ("Script(TYPE FOO)", "bad TYPE"),
        ("DriverManager(); Script(TYPE DRIVER)", "router has more than one driver script"),
        ("Script(TYPE PACKET)", "PACKET script must have inputs"),
        ("Idle -> Script(TYPE PASSIVE)", "ports allowed only on PACKET scripts"),
        ("Script(TYPE SIGNAL)", "bad signal number"),
        ("Script(TYPE SIGNAL FOO)", "bad signal number"),
        ("Script(goto x)", "no such label 'x'"),
    ] {
        let errors = Run::errors(text);
        assert!(errors.contains(expected), "{text}: {errors}");
    }
}

#[test]
fn files_are_written_and_read() {
    let dir = std::env::temp_dir().join(format!("linerate-script-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join("file");
    let file = file.to_str().unwrap();
    let printed = output(&format!(
        "Script(save list {file}, append driver {file}, print >>{file} \"a b\",
            printn >>{file} \"end\", print $(cat {file}), print $(catq {file}),
            print >{file}/no \"x\", print $(cat /dev/zero), stop)"
    ));
    std::fs::remove_dir_all(&dir).unwrap();
    let expected = format!(
        "1\nScript@1\nuserlevel\na b\nend\n\"1\\nScript@1\\nuserlevel\\na b\\nend\"\n\
         While executing 'Script@1 :: Script':\n  {file}/no: Not a directory\n  \
         /dev/zero: not a regular file\n$(cat /dev/zero)"
    );
    assert_eq!(printed, expected.replace("$(cat /dev/zero)", ""));
}

#[test]
fn a_signal_runs_its_script_on_the_worker() {
    let mut run = Run::new(
        "Script(TYPE SIGNAL USR1 USR2, print \"caught\", set n $(add $n 1),
            goto again $(lt $n 2), stop, label again)
        Script(print $(kill USR1 $$), wait 50ms, print $(kill USR2 $$))",
    )
    .frame_limit(1)
    .real_time();
    run.run();
    assert_eq!(run.output(), "\ncaught\n\ncaught\n");
}

#[test]
fn resources_of_scripts_are_bounded() {
    // Substitution that doubles a text, scripts that call themselves through
    // others, and loops in loops: each ends with a word about it.
    for (text, said) in [
        ("Script(set x ab, label l, set x $x$x, goto l); Script(wait 1, stop)", "text too long"),
        (
            "a :: Script(TYPE PASSIVE, print $(b.run)); b :: Script(TYPE PASSIVE, print $(a.run));
            Script(print $(a.run), stop)",
            "",
        ),
        (
            "a :: Script(TYPE PASSIVE, label l, goto l);
            b :: Script(TYPE PASSIVE, label l, write a.run, goto l);
            c :: Script(TYPE PASSIVE, label l, write b.run, goto l);
            Script(label l, write c.run, goto l); Script(wait 1, stop)",
            "too many jumps, giving up",
        ),
        (
            // Few jumps, but much text.
            "Script(set x ab, set i 0, label l, set x $x$x, set i $(add $i 1), goto l $(lt $i 15),
                label m, set y $x$x$x$x$x$x$x$x, set i $(add $i 1), goto m $(lt $i 500));
            Script(wait 1, stop)",
            "too many jumps, giving up",
        ),
        ("Script(label l, wait 0, goto l); Script(wait 0.0001, stop)", ""),
    ] {
        let printed = output(text);
        assert!(printed.contains(said), "{text}: {printed}");
    }
}

#[test]
fn signals_that_cannot_be_caught_are_refused() {
    for number in ["9", "11"] {
        let errors = Run::errors(&format!("Script(TYPE SIGNAL {number}, stop)"));
        assert!(errors.contains("signal: Invalid argument"), "{errors}");
    }
}

/// They are `FastClick`'s; Click's scripts have variables of these names.
#[test]
fn exported_variables_come_before_handlers_click_does_not_have() {
    let mut run = Run::new(
        "s :: Script(TYPE PASSIVE, export count 5, set count $(add $count 1), return $(avg 1 3));
        Script(print s.run, print s.count, print $(count 7 8), stop)",
    );
    run.run();
    assert_eq!(run.output(), "2\n6\n2\n");
}
