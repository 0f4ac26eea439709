//! Names, files and programs that the tools accept or refuse.

use std::process::Command;

use crate::common::{CRATE_DIR, copy, is_installed, output, run, stingy};
use crate::server::{LOOP, Server};

/// Two stages, of which the second has this name.
fn stages(second: &str) -> String {
    format!(
        "static void {second}(struct request *r)
        {{
            free(r->large);
            done++;
            free(r);
        }}
        static void first(struct request *r)
        {{
            r->large = malloc(sizeof(*r->large));
            queue(r, {second});
        }}"
    )
}

const MEMBERS: &str = "struct item { char bytes[100]; } *large;";

/// The error of memwalk.
fn error(server: &Server) -> String {
    let output = output(server.path(), env!("CARGO_BIN_EXE_phalanx-stingy"), &["memwalk"]);
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_stage_may_have_the_name_of_a_structure() {
    if !is_installed("gcc") || !is_installed("patch") {
        return;
    }
    let server = Server::new(MEMBERS, &stages("request"));
    server.run_patched(&[]);
}

#[test]
fn a_stage_named_like_the_event_loop_is_refused() {
    if !is_installed("gcc") {
        return;
    }
    let server = Server::new(MEMBERS, &stages("entry"));
    let error = error(&server);
    assert!(error.contains("stingy.toml: a stage has the name `entry`"), "{error}");
}

#[test]
fn an_object_named_like_a_macro_of_the_header_is_refused() {
    if !is_installed("gcc") {
        return;
    }
    let server = Server::new(&MEMBERS.replace("item", "H"), &stages("last"));
    let at = server.path();
    let tool = env!("CARGO_BIN_EXE_phalanx-stingy");
    let json = run(at, tool, &["memwalk", "--json"]);
    std::fs::write(at.join("server.json"), json).expect("a file");
    let output = output(at, tool, &["stingygen", "server.json"]);
    let error = String::from_utf8_lossy(&output.stderr);
    let expected = "`stingy.h` and `H` have the same name in C";
    assert!(!output.status.success() && error.contains(expected), "{error}");
}

#[test]
fn a_dispatching_function_without_cases_is_refused() {
    if !is_installed("gcc") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    copy("tests/data/states.c", folder.path());
    let description = format!("{CRATE_DIR}/tests/data/states.toml");
    let toml = std::fs::read_to_string(description).expect("the description");
    let toml = toml.replace("dispatch = \"drive\"", "dispatch = \"install\"");
    std::fs::write(folder.path().join("stingy.toml"), toml).expect("a file");
    run(folder.path(), "gcc", &["-g", "-o", "states", "states.c"]);
    let output = output(folder.path(), env!("CARGO_BIN_EXE_phalanx-stingy"), &["memwalk"]);
    let error = String::from_utf8_lossy(&output.stderr);
    let expected = "states.c:43: `install` has no `case` of the enumeration `state`";
    assert!(!output.status.success() && error.contains(expected), "{error}");
}

#[test]
fn patches_apply_to_sources_in_the_folder_only() {
    if !is_installed("gcc") || !is_installed("patch") {
        return;
    }
    let code = format!("static void first(struct request *r);\n{LOOP}{}", stages("last"));
    let server = Server::with(MEMBERS, &code, &[], "");
    let at = server.path();
    std::fs::create_dir_all(at.join("a folder/inner")).expect("a folder");
    std::fs::rename(at.join("server.c"), at.join("a folder/the server.c")).expect("a file");
    let toml = std::fs::read_to_string(at.join("stingy.toml")).expect("the description");
    let sources = |path: &str| toml.replace("server.c", path);
    let outer = sources("../the server.c").replace("\"server\"", "\"../../server\"");
    std::fs::write(at.join("a folder/inner/stingy.toml"), outer).expect("a file");
    let error = server.stingify(&["a folder/inner/stingy.toml"]).expect_err("another folder");
    assert!(error.contains("the server.c: outside of "), "{error}");
    let inner = sources("a folder/inner/../the server.c");
    std::fs::write(at.join("stingy.toml"), inner).expect("a file");
    let (patch, _) = server.stingify(&[]).expect("a patch");
    std::fs::write(at.join("server.patch"), patch).expect("a file");
    run(at, "patch", &["-s", "-p1", "-i", "server.patch"]);
}

#[test]
fn a_source_that_is_named_twice_counts_once() {
    if !is_installed("gcc") || !is_installed("patch") {
        return;
    }
    for sources in ["[\"server.c\", \".\"]", "[\".\", \"./server.c\"]"] {
        let server = Server::new(MEMBERS, &stages("last"));
        let description = server.path().join("stingy.toml");
        let toml = std::fs::read_to_string(&description).expect("the description");
        let toml = toml.replace("[\"server.c\"]", sources);
        std::fs::write(description, toml).expect("a file");
        server.run_patched(&[]);
    }
}

#[test]
fn an_object_file_is_no_program() {
    if !is_installed("gcc") {
        return;
    }
    let server = Server::new(MEMBERS, &stages("last"));
    run(server.path(), "gcc", &["-g", "-c", "-o", "server", "server.c"]);
    let error = error(&server);
    assert!(error.contains("server: an object file; name the linked program"), "{error}");
}

#[test]
fn pointers_have_the_size_of_the_program() {
    let linked = ["-m32", "-g", "-nostdlib", "-static", "-Wl,-e,main", "-ffreestanding"];
    let folder = tempfile::tempdir().expect("a folder");
    let source = "typedef unsigned size_t; struct request { struct request *next; void (*to)(struct request *); char *list; };\n\
        void *malloc(size_t n) { return (void *)n; }\nvoid free(void *p) { (void)p; }\n\
        static struct request *r;\n\
        static void queue(struct request *q, void (*to)(struct request *)) { q->to = to; }\n\
        static void first(struct request *q) { q->list = malloc(5 * sizeof(char *)); free(q->list); }\n\
        static void run(struct request *q) { q->to(q); }\n\
        void loop(void) { r = malloc(sizeof(*r)); queue(r, first); run(r); }\n\
        int main(void) { loop(); return 0; }\n";
    std::fs::write(folder.path().join("server.c"), source).expect("a source");
    let toml = "sources = [\"server.c\"]\nprogram = \"server\"\n[stages]\nscheduler = \"loop\"\nschedule = \"run\"\n\
                queue = [{ function = \"queue\", stage = 1 }]\n";
    std::fs::write(folder.path().join("stingy.toml"), toml).expect("a file");
    let compiled = Command::new("gcc")
        .current_dir(folder.path())
        .args(linked)
        .args(["-o", "server", "server.c"])
        .output();
    if !compiled.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: gcc compiles no 32-bit programs");
        return;
    }
    let table = stingy(folder.path(), &["memwalk"]);
    assert!(table.contains("\nrequest 12,") && table.contains("\nrequest.list 20,"), "{table}");
}

#[test]
fn long_chains_of_code_are_analysed() {
    if !is_installed("gcc") {
        return;
    }
    let chain: String = (0..2000).map(|i| format!("if (r->n == {i}) r->n++; else ")).collect();
    let sum = "1 + ".repeat(20_000);
    let code = format!(
        "static void first(struct request *r)
        {{
            {chain} r->n = {sum} 0;
            done++;
            free(r);
        }}"
    );
    let server = Server::new("int n;", &code);
    assert_eq!(server.bytes("request"), Some(24));
}
