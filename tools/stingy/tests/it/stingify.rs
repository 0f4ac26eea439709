use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::common::{copy, is_installed, output, run, stingy};

/// The L2 cache of the simulation in bytes, and the number of requests in flight, which need ten times as much.
const L2_BYTES: &str = "131072";
const IN_FLIGHT: &str = "128";

/// `tux.c` and its patched copy in `new`, compiled in a new folder.
fn both() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    for file in ["tux.c", "stingy.toml"] {
        copy(&format!("examples/tux/{file}"), at);
    }
    let flags = ["-O2", "-g", "-Wall", "-Wextra", "-Werror"];
    let compile = |arguments: &[&str]| run(at, "gcc", &[&flags, arguments].concat());
    compile(&["-fstack-usage", "-o", "tux", "tux.c"]);
    std::fs::write(at.join("tux.json"), stingy(at, &["memwalk", "--json"])).expect("a file");
    std::fs::create_dir(at.join("new")).expect("a folder");
    stingy(at, &["stingygen", "tux.json", "--out", "new"]);
    std::fs::write(at.join("tux.patch"), stingy(at, &["stingify"])).expect("a file");
    copy("examples/tux/tux.c", &at.join("new"));
    run(at, "patch", &["-s", "-d", "new", "-p1", "-i", "../tux.patch"]);
    compile(&["-std=gnu11", "-pedantic", "-o", "new/tux", "new/tux.c", "new/stingy.c"]);
    folder
}

/// Data misses of the last level of a simulated cache.
fn misses(folder: &Path, program: &str, requests: &str) -> f64 {
    let output = Command::new("valgrind")
        .current_dir(folder)
        .env("STINGY_L2", L2_BYTES)
        .args(["--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null"])
        .args(["--I1=32768,8,64", "--D1=32768,8,64", &format!("--LL={L2_BYTES},8,64")])
        .args([program, IN_FLIGHT, requests])
        .output()
        .expect("valgrind");
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find(|line| line.contains("LLd misses:")).expect("counts");
    let count = line.split_once("misses:").expect("a count").1.split_whitespace().next();
    count.and_then(|count| count.replace(',', "").parse().ok()).expect("a number")
}

#[test]
fn patched_tux_gives_the_same_responses() {
    if !is_installed("gcc") || !is_installed("patch") {
        return;
    }
    let folder = both();
    for in_flight in ["1", "3", "500"] {
        let checksum = |program: &str| {
            let text = run(folder.path(), program, &[in_flight, "3000"]);
            text.split_once(", ").expect("two results").1.to_owned()
        };
        assert_eq!(checksum("./tux"), checksum("new/tux"));
    }
}

#[test]
fn sizes_of_the_environment_may_have_units() {
    if !is_installed("gcc") || !is_installed("patch") {
        return;
    }
    let folder = both();
    let pools_with = |size: &str| {
        let mut command = Command::new(folder.path().join("new/tux"));
        command.args(["3", "30"]).env("STINGY_L2", size).output().expect("the server")
    };
    for size in ["", "4096", "512K", "1M"] {
        assert!(pools_with(size).status.success(), "{size:?}");
    }
    for size in ["100", "1G", "K", "512KB", "1 M", "99999999999999999M"] {
        let output = pools_with(size);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && errors.contains("512K or 1M"), "{size:?}: {errors}");
    }
}

#[test]
fn patched_tux_has_at_most_two_fifths_of_the_misses() {
    if !is_installed("gcc") || !is_installed("patch") || !is_installed("valgrind") {
        return;
    }
    let folder = both();
    let per_request = |program| {
        let few = misses(folder.path(), program, "256");
        (misses(folder.path(), program, "1280") - few) / 1024.0
    };
    let (before, after) = (per_request("./tux"), per_request("new/tux"));
    println!("misses per request: {before:.1} before, {after:.1} after");
    assert!(after <= 0.4 * before, "{after} misses per request, {before} before");
}

#[test]
fn only_the_wanted_objects_are_replaced_and_events_are_bounded() {
    if !is_installed("gcc") || !is_installed("patch") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    for file in ["handlers.c", "handlers_other.c", "handlers.toml"] {
        copy(&format!("tests/data/{file}"), at);
    }
    run(at, "gcc", &["-g", "-o", "handlers", "handlers.c", "handlers_other.c"]);
    std::fs::write(at.join("handlers.json"), stingy(at, &["memwalk", "handlers.toml", "--json"]))
        .expect("a file");
    stingy(at, &["stingygen", "handlers.json"]);
    let generated = std::fs::read_to_string(at.join("stingy.c")).expect("the allocator");
    assert!(generated.contains("#define spill_size own_size\n"));
    let output = output(at, env!("CARGO_BIN_EXE_phalanx-stingy"), &["stingify", "handlers.toml"]);
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let (patch, notes) = (text(&output.stdout), text(&output.stderr));
    let expected = "this allocation of `client.reply` keeps its allocator: `sized_alloc` has further arguments";
    assert!(notes.contains(expected), "{notes}");
    let added: Vec<_> = patch.lines().filter(|line| line.starts_with('+')).collect();
    let expected = [
        "+++ b/handlers.c",
        "+#include \"stingy.h\"",
        "+    stingy_free(STINGY_client_reply, c->reply);",
        "+    stingy_free(STINGY_client, c);",
        "+    c->is_pending = stingy_size(STINGY_client, c) > 0;",
        "+    struct client *c = stingy_alloc(STINGY_client);",
        "+    wait_for_events(stingy_events(100));",
    ];
    assert_eq!(added, expected);
    std::fs::write(at.join("handlers.patch"), patch).expect("a file");
    run(at, "patch", &["-s", "-p1", "-i", "handlers.patch"]);
    let files = ["handlers.c", "handlers_other.c", "stingy.c"];
    run(at, "gcc", &[&["-Wall", "-Werror", "-o", "handlers"], &files[..]].concat());
    run(at, "./handlers", &[]);
}

#[test]
fn threads_free_the_memory_of_each_other() {
    if !is_installed("gcc") {
        return;
    }
    let folder = both();
    let at = folder.path();
    copy("tests/data/threads.c", at);
    let files = ["threads.c", "new/stingy.c"];
    let flags = ["-O2", "-g", "-Wall", "-Werror", "-Inew", "-pthread", "-o", "threads"];
    run(at, "gcc", &[&flags[..], &files[..]].concat());
    // At most two objects of each thread are in use, so that returned slots are reused.
    assert_eq!(run(at, "./threads", &[]).trim(), "0");
}

#[test]
fn slots_and_stages_are_not_lost() {
    if !is_installed("gcc") {
        return;
    }
    let folder = both();
    let at = folder.path();
    copy("tests/data/pools.c", at);
    let files = ["pools.c", "new/stingy.c"];
    let flags = ["-O2", "-g", "-Wall", "-Werror", "-Inew", "-pthread", "-o", "pools"];
    run(at, "gcc", &[&flags[..], &files[..]].concat());
    for message in ["pool", "threads", "patience"] {
        run(at, "./pools", &[message]);
    }
    let inside = output(at, "./pools", &["inside"]);
    let errors = String::from_utf8_lossy(&inside.stderr);
    assert!(!inside.status.success() && errors.contains("no slot of a pool"), "{errors}");
}

#[test]
fn constructs_that_cannot_be_rewritten_are_reported_with_their_lines() {
    if !is_installed("gcc") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for file in ["callbacks.c", "callbacks.toml"] {
        copy(&format!("tests/data/{file}"), folder.path());
    }
    run(folder.path(), "gcc", &["-g", "-o", "callbacks", "callbacks.c"]);
    let stingify = |arguments: &[&str]| {
        let all = [&["stingify", "callbacks.toml"], arguments].concat();
        let output = output(folder.path(), env!("CARGO_BIN_EXE_phalanx-stingy"), &all);
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        (output.status.success(), text(&output.stdout), text(&output.stderr))
    };
    let (succeeds, _, errors) = stingify(&[]);
    let expected = "callbacks.c:44: `execute` must be called in a loop over active requests within the event loop";
    assert!(!succeeds && errors.contains(expected), "{errors}");
    let (succeeds, patch, errors) = stingify(&["--memory-only"]);
    assert!(succeeds, "{errors}");
    let expected = "\
callbacks.c:27: not replaced: `request->extra` has no type; check that it is none of the objects
callbacks.c:28: not replaced: `request->text` is no pointer to a structure; check that it is none of the objects
callbacks.c:35: `request.text` keeps its allocator, because its size changes here
callbacks.c:35: not replaced: `request->text` is no pointer to a structure; check that it is none of the objects
";
    assert_eq!(errors, expected);
    let added: Vec<_> = patch.lines().filter(|line| line.starts_with('+')).collect();
    let expected = [
        "+++ b/callbacks.c",
        "+#include \"stingy.h\"",
        "+    stingy_free(STINGY_request, request);",
        "+    struct request *request = stingy_alloc(STINGY_request);",
    ];
    assert_eq!(added, expected);
}
