//! Sizes of objects: those of the compiler, or unknown.

use crate::common::is_installed;
use crate::server::{LOOP, Server};

/// Stages that allocate a buffer of this size and free it.
fn stages(size: &str) -> String {
    format!(
        "static void last(struct request *r)
        {{
            free(r->buffer);
            done++;
            free(r);
        }}
        static void first(struct request *r)
        {{
            r->buffer = malloc({size});
            queue(r, last);
        }}"
    )
}

#[test]
fn an_array_has_the_size_of_its_elements() {
    if !is_installed("gcc") {
        return;
    }
    let members =
        "char *buffer; char line[100]; struct pair { int a, b; } pairs[3][2]; char *names[5];";
    for (size, bytes) in [
        ("sizeof(r->line)", Some(100)),
        ("sizeof(r->pairs)", Some(48)),
        ("sizeof(r->pairs[0])", Some(16)),
        ("sizeof(r->names)", Some(40)),
        ("sizeof(&r->line)", Some(8)),
        ("sizeof(char[100])", None),
        ("sizeof(char (*)[100])", Some(8)),
    ] {
        let server = Server::new(members, &stages(size));
        assert_eq!(server.bytes("request.buffer"), bytes, "{size}");
    }
}

#[test]
fn a_name_with_several_meanings_has_no_size() {
    if !is_installed("gcc") {
        return;
    }
    let first = "static void first(struct request *r);\n";
    // Another file with the same names.
    let other = "#define SIZE 16\nstruct other { char c[2]; };\nstatic struct other *shared;\n\
                 int use(void) { return SIZE + (shared != 0); }\n";
    let server = |before: &str, size: &str| {
        let code = format!("{before}\n{first}{LOOP}{}", stages(size));
        Server::with("char *buffer;", &code, &[("other.c", other)], "").bytes("request.buffer")
    };
    assert_eq!(server("#define SIZE 64", "SIZE"), Some(64));
    assert_eq!(server("#ifdef BIG\n#define ROOM 64\n#else\n#define ROOM 8\n#endif", "ROOM"), None);
    assert_eq!(server("#ifndef ROOM\n#define ROOM 64\n#endif", "ROOM"), None);
    let shared = "struct large { char c[64]; };\nstatic struct large *shared;";
    assert_eq!(server(shared, "sizeof(*shared)"), None);
    let code = "#define LOCAL 8\nstatic size_t LOCAL_size = LOCAL;\n#undef LOCAL";
    assert_eq!(server(code, "({ size_t LOCAL = LOCAL_size; LOCAL * 100; })"), None);
}

#[test]
fn the_order_of_deallocations_and_loops_are_regarded() {
    if !is_installed("gcc") {
        return;
    }
    let server = Server::new(
        "struct item { int n; } *item; char *list;",
        "static void last(struct request *r)
        {
            free(r->item);
            free(r->list);
            done++;
            free(r);
        }
        static void first(struct request *r)
        {
            free(r->item);
            r->item = malloc(sizeof(struct item));
            for (int i = 0; i < 3; i++)
                r->list = malloc(10);
            queue(r, last);
        }",
    );
    let analysis = server.analysis();
    let stages = analysis["stages"].as_array().expect("stages");
    let last = stages.iter().find(|stage| stage["name"] == "last").expect("the stage");
    assert_eq!(last["live"], serde_json::json!(["item", "request", "request.list"]));
    let warnings = analysis["warnings"].as_array().expect("warnings");
    let lines: Vec<_> =
        warnings.iter().map(|warning| warning["what"].as_str().expect("text")).collect();
    assert_eq!(lines, ["`request.list` is allocated in a loop or several times; it counts once"]);
}

#[test]
fn deallocations_count_unless_a_directive_or_a_jump_passes_them() {
    if !is_installed("gcc") {
        return;
    }
    let server = Server::new(
        "char *debug, *after_loop, *after_switch, *in_loop;",
        "static void last(struct request *r)
        {
            done++;
            free(r);
        }
        static void middle(struct request *r)
        {
        #ifdef DEBUG
            free(r->debug);
        #endif
            do {
                if (left)
                    continue;
                free(r->in_loop);
            } while (0);
            while (left > 3)
                break;
            free(r->after_loop);
            switch (left) {
            case 4:
                break;
            }
            free(r->after_switch);
            queue(r, last);
        }
        static void first(struct request *r)
        {
            r->debug = malloc(10);
            r->after_loop = malloc(10);
            r->after_switch = malloc(10);
            r->in_loop = malloc(10);
            queue(r, middle);
        }",
    );
    let analysis = server.analysis();
    let stages = analysis["stages"].as_array().expect("stages");
    let last = stages.iter().find(|stage| stage["name"] == "last").expect("the stage");
    let live = serde_json::json!(["request", "request.debug", "request.in_loop"]);
    assert_eq!(last["live"], live);
}

#[test]
fn the_stack_of_recursive_functions_does_not_depend_on_the_order() {
    if !is_installed("gcc") {
        return;
    }
    // `second` is reached first, within the recursion of `one`, where it does not reach `deep`.
    let code = "static void last(struct request *r)
        {
            done++;
            free(r);
        }
        static void one(int n);
        __attribute__((noinline)) static void deep(void) { volatile char c[5000]; c[0] = 1; }
        __attribute__((noinline)) static void two(int n) { if (n) one(n - 1); }
        __attribute__((noinline)) static void one(int n) { if (n) two(n - 1); deep(); }
        static void other(struct request *r)
        {
            two(2);
            queue(r, last);
        }
        static void first(struct request *r)
        {
            one(2);
            queue(r, other);
        }";
    let server = Server::new("int n;", code);
    let toml = std::fs::read_to_string(server.path().join("stingy.toml")).expect("the description");
    let toml = format!("stack-usage = \".\"\n{toml}");
    std::fs::write(server.path().join("stingy.toml"), toml).expect("a file");
    crate::common::run(
        server.path(),
        "gcc",
        &["-g", "-O1", "-fstack-usage", "-o", "server", "server.c"],
    );
    let analysis = server.analysis();
    for stage in analysis["stages"].as_array().expect("stages") {
        if ["first", "other"].iter().any(|name| stage["name"] == *name) {
            assert!(stage["stack"].as_u64() > Some(4000), "{stage}");
        }
    }
}
