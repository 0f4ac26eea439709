//! Event loops that stingify rewrites, and those that it refuses.

use crate::common::{copy, is_installed, output, run, stingy};
use crate::server::Server;

const STAGES: &str = "
static void first(struct request *r);
static int left = 3, done;
static int has_request(void) { return left > 0; }
static void add(void)
{
    struct request *r = calloc(1, sizeof(*r));
    left--;
    queue(r, first);
}
static void last(struct request *r)
{
    done++;
    free(r);
}
static void first(struct request *r)
{
    queue(r, last);
}
static int wait_for_events(int events, int timeout)
{
    /* Nothing arrives after the last request. */
    if (timeout < 0 && left == 0 && done < 3)
        abort();
    return events;
}
";

/// A server with this body of its loop.
fn server(before: &str, body: &str, toml: &str) -> Server {
    let code = format!(
        "{STAGES}{before}\nstatic void loop(void)\n{{\n    while (done < 3) {{\n{body}\n    }}\n}}\n"
    );
    Server::with("int number;", &code, &[], toml)
}

const ACCEPT: &str = "while (has_request()) add();";
const RUN: &str = "for (int n = active; n > 0; n--) run(take());";

#[test]
fn loops_with_other_effects_are_refused() {
    if !is_installed("gcc") {
        return;
    }
    let before = "static int served, idle; static void tick(void) { served++; }
        static int is_busy(void) { return active > 0; }
        #define NEXT(r, to) queue(r, to)
        static void third(struct request *r) { queue(r, last); }
        static int poll(int a, int b, int timeout) { return a + b + timeout; }";
    for (body, at, expected) in [
        (
            format!("{ACCEPT} for (int n = active; n > 0; n--) {{ run(take()); tick(); }}"),
            "run(take()); tick()",
            "contains this statement too",
        ),
        (
            format!("{ACCEPT} for (int n = active; n > 0; n--) if (ready) run(take());"),
            "if (ready) run",
            "executed under a condition",
        ),
        (
            format!("{ACCEPT} for (int n = active; n > 0; n--, served++) run(take());"),
            "n--, served++",
            "changes this variable",
        ),
        (
            format!("if (has_request()) add(); else idle++; {RUN}"),
            "else idle++",
            "requests are accepted under an `if` with `else`",
        ),
        (
            format!("{ACCEPT} {RUN} idle = active;"),
            "idle = active",
            "`active` is the state of `queue`",
        ),
        (
            format!("{ACCEPT} {RUN} idle = is_busy();"),
            "return active > 0",
            "`active` is the state of `queue`",
        ),
        (
            format!("{ACCEPT} {RUN} poll(0, 0, -1);"),
            "poll(0, 0, -1)",
            "`poll` may block while requests are queued",
        ),
    ] {
        let server = server(before, &body, "");
        let error = server.stingify(&[]).expect_err(&body);
        // The macro is not used.
        assert!(
            error.contains(&format!("{}: ", server.line(at))) && error.contains(expected),
            "{body}\n{error}"
        );
    }
    let before = format!("{before}\nstatic void fourth(struct request *r) {{ NEXT(r, last); }}");
    let server = server(&before, &format!("{ACCEPT} {RUN}"), "");
    let error = server.stingify(&[]).expect_err("a macro queues");
    let expected =
        format!("{}: this use of `NEXT` is not replaced", server.line("{ NEXT(r, last)"));
    assert!(error.contains(&expected), "{error}");
}

#[test]
fn a_server_does_not_wait_while_requests_are_queued() {
    if !is_installed("gcc") || !is_installed("patch") {
        return;
    }
    let toml = "wait = [{ function = \"wait_for_events\", events = 0, timeout = 1 }]";
    let body = format!("wait_for_events(8, active ? 0 : -1); {ACCEPT} {RUN}");
    let refused = server("", &body, toml).stingify(&[]).expect_err("the state of the queue");
    assert!(refused.contains("`active` is the state of `queue`"), "{refused}");
    let body = format!("wait_for_events(8, -1); {ACCEPT} {RUN}");
    let server = server("", &body, toml);
    let (added, _) = server.added(&[]);
    assert!(added.contains("wait_for_events(stingy_events(8), stingy_timeout(-1));"), "{added}");
    assert!(added.contains("stingy_run(stingy_execute);"), "{added}");
    server.run_patched(&[]);
}

#[test]
fn calls_that_may_block_are_noted() {
    if !is_installed("gcc") {
        return;
    }
    let before = "#include <unistd.h>
        static int accept(int fd) { return fd; }
        static int next_client(void) { char c; return accept(3) + (int)read(3, &c, 1); }";
    let loops = server(before, &format!("next_client(); {ACCEPT} {RUN}"), "");
    let (_, notes) = loops.added(&[]);
    let expected = format!("{}: `read` must not block while", loops.line("read(3, &c, 1)"));
    assert!(notes.contains(&expected) && !notes.contains("`accept`"), "{notes}");
    let waits = server(before, &format!("if (left > 9) pause(); {ACCEPT} {RUN}"), "");
    let error = waits.stingify(&[]).expect_err("a function without a timeout");
    let expected =
        "`pause` may block while requests are queued; wait by a function with an integer";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn stages_in_other_files_are_declared() {
    if !is_installed("gcc") || !is_installed("patch") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    for file in ["loop.h", "loop.c", "loop_stages.c"] {
        copy(&format!("tests/data/{file}"), at);
    }
    let toml = "sources = [\".\"]\nprogram = \"server\"\n[stages]\nscheduler = \"loop\"\nschedule = \"run\"\n\
                queue = [{ function = \"queue\", stage = 1 }]\n";
    std::fs::write(at.join("stingy.toml"), toml).expect("a file");
    let compile = |others: &[&str]| {
        let flags = ["-g", "-Wall", "-Wextra", "-Werror", "-o", "server"];
        run(at, "gcc", &[&flags, &["loop.c", "loop_stages.c"][..], others].concat());
    };
    let source = std::fs::read_to_string(at.join("loop_stages.c")).expect("the source");
    // The event loop has no such type.
    let hidden = source.replace("last(struct request *r)", "last(reference r)");
    std::fs::write(at.join("loop_stages.c"), hidden).expect("a file");
    compile(&[]);
    let refused = output(at, env!("CARGO_BIN_EXE_phalanx-stingy"), &["stingify"]);
    let error = String::from_utf8_lossy(&refused.stderr);
    let expected = "loop_stages.c:15: `last` and its parameter of type `reference` are not declared in ./loop.c";
    assert!(!refused.status.success() && error.contains(expected), "{error}");

    std::fs::write(at.join("loop_stages.c"), source).expect("a file");
    compile(&[]);
    std::fs::write(at.join("server.json"), stingy(at, &["memwalk", "--json"])).expect("a file");
    stingy(at, &["stingygen", "server.json"]);
    std::fs::write(at.join("server.patch"), stingy(at, &["stingify"])).expect("a file");
    run(at, "patch", &["-s", "-p1", "-i", "server.patch"]);
    compile(&["stingy.c"]);
    assert_eq!(run(at, "./server", &[]), "7\n7\n7\n");
}

#[test]
fn stages_have_a_pointer_to_the_request_only() {
    if !is_installed("gcc") {
        return;
    }
    for parameters in ["struct request *r, int events", "long r", "void"] {
        let other = format!(
            "static void other({parameters}) {{ done++; }}
             static void before(struct request *r) {{ queue(r, (stage *)other); }}"
        );
        let body = format!("{ACCEPT} {RUN} if (left > 9) before(take());");
        let server = server(&other, &body, "");
        let error = server.stingify(&[]).expect_err(parameters);
        let expected = format!(
            "{}: `other` must have one parameter, a pointer to the request",
            server.line("static void other(")
        );
        assert!(error.contains(&expected), "{error}");
    }
}

#[test]
fn functions_that_a_patch_makes_unused_are_removed_with_their_declarations() {
    if !is_installed("gcc") || !is_installed("patch") {
        return;
    }
    let before = "static struct request *take(void);\nstatic void run(struct request *r);";
    let server = server(before, &format!("{ACCEPT} {RUN}"), "");
    let (patch, _) = server.stingify(&[]).expect("a patch");
    for name in ["take(void)", "run(struct request *r)", "queue(struct request *r, stage *to)"] {
        let removed = patch.lines().filter(|line| line.starts_with('-') && line.contains(name));
        assert_eq!(removed.count(), if name.starts_with("queue") { 1 } else { 2 }, "{patch}");
    }
    server.run_patched(&[]);
}

#[test]
fn a_function_that_is_not_called_is_no_function_that_waits() {
    if !is_installed("gcc") {
        return;
    }
    let toml = "wait = [{ function = \"epoll_wait\", events = 2 }]";
    let server = server("", &format!("{ACCEPT} {RUN}"), toml);
    let error = server.stingify(&[]).expect_err("no call");
    assert!(error.contains("stingy.toml: the sources contain no call of `epoll_wait`"), "{error}");
}
