//! Memory of a pool must not reach `free`: the calls that stingify replaces, and its notes on others.

use crate::common::is_installed;
use crate::server::Server;

const MEMORY_ONLY: &[&str] = &["--memory-only"];

#[test]
fn memory_that_is_allocated_and_freed_under_different_names_has_no_pool() {
    if !is_installed("gcc") || !is_installed("patch") {
        return;
    }
    let server = Server::new(
        "char *buffer, *copy;",
        "static void last(struct request *r)
        {
            free(r->buffer);
            char *alias = r->copy;
            alias = realloc(alias, 20);
            free(alias);
            done++;
            free(r);
        }
        static void first(struct request *r)
        {
            char *b = malloc(4096);
            r->buffer = b;
            r->copy = malloc(10);
            queue(r, last);
        }",
    );
    let (added, notes) = server.added(MEMORY_ONLY);
    let expected = "#include \"stingy.h\"\nstruct request *r = stingy_zalloc(STINGY_request);\nstingy_free(STINGY_request, r);\n";
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let added: String = added.lines().skip(1).map(|line| format!("{line}\n")).collect();
    assert_eq!(sorted(&added), sorted(expected));
    for (at, message) in [
        ("char *b = malloc", "`first:b` keeps its allocator, because no call frees it"),
        ("r->copy = malloc", "`request.copy` keeps its allocator, because no call frees it"),
        ("free(r->buffer)", "not replaced: `r->buffer` is no pointer to a structure"),
        ("alias = realloc", "not replaced: `alias` is no pointer to a structure"),
        ("free(alias)", "not replaced: `alias` is no pointer to a structure"),
    ] {
        let expected = format!("{}: {message}", server.line(at));
        assert!(notes.contains(&expected), "{expected}\n{notes}");
    }
    server.run_patched(MEMORY_ONLY);
}

#[test]
fn frees_by_macros_and_values_are_replaced_or_noted() {
    if !is_installed("gcc") || !is_installed("patch") {
        return;
    }
    let code = "#include \"util.h\"
        #define xfree free
        #define DROP(p) do { xfree(p); (p) = NULL; } while (0)
        static void first(struct request *r);
        static void (*release)(void *) = free;";
    let stages = "static void last(struct request *r)
        {
            DROP(r->one);
            RELEASE(r->two);
            release(r->three);
            xfree(r->four);
            done++;
            xfree(r);
        }
        static void first(struct request *r)
        {
            r->one = malloc(100);
            r->two = malloc(100);
            r->three = malloc(100);
            r->four = malloc(100);
            if (!r->four)
                free(r->one);
            if (!r->four)
                free(r->two);
            queue(r, last);
        }";
    let header = "#define RELEASE(p) free(p)\nstatic inline void drop(void *p) { free(p); }\n";
    let server = Server::with(
        "char *one, *two, *three, *four;",
        &format!("{code}{}{stages}", crate::server::LOOP),
        &[("util.h", header)],
        "",
    );
    let (added, notes) = server.added(MEMORY_ONLY);
    assert!(added.contains("stingy_free(STINGY_request, r);"), "{added}");
    assert!(added.contains("r->four = stingy_alloc(STINGY_request_four);"), "{added}");
    assert!(
        !added.contains("STINGY_request_one") && !added.contains("STINGY_request_two"),
        "{added}"
    );
    for (at, message) in [
        (
            "DROP(r->one)",
            "`request.one` keeps its allocator, because the macro `DROP` may free it here",
        ),
        (
            "RELEASE(r->two)",
            "`request.two` keeps its allocator, because the macro `RELEASE` may free it here",
        ),
        ("DROP(r->one)", "not replaced: the macro `DROP` may free memory"),
        ("release)(void *) = free", "not replaced: `free` is a value here"),
        ("r->three = malloc", "`request.three` keeps its allocator, because no call frees it"),
    ] {
        let expected = format!("{}: {message}", server.line(at));
        assert!(notes.contains(&expected), "{expected}\n{notes}");
    }
    let expected = "util.h:2: not replaced: this call of `free` is in text that was not parsed";
    assert!(notes.contains(expected), "{notes}");
    server.run_patched(MEMORY_ONLY);
}

#[test]
fn a_pointer_with_marks_is_freed_as_the_structure_of_its_cast() {
    if !is_installed("gcc") || !is_installed("patch") {
        return;
    }
    // As in lighttpd.
    let stages = "static void last(struct request *r)
        {
            free(r->item);
            done++;
            free((struct request *)((unsigned long)r & ~0x3ul));
        }
        static void first(struct request *r)
        {
            r->item = malloc(sizeof(struct item));
            queue(r, last);
        }";
    let server = Server::new("struct item { int n; } *item;", stages);
    let (added, notes) = server.added(MEMORY_ONLY);
    let freed = "stingy_free(STINGY_request, (struct request *)((unsigned long)r & ~0x3ul));";
    assert!(added.contains(freed), "{added}");
    assert!(!notes.contains("not replaced"), "{notes}");
    server.run_patched(MEMORY_ONLY);
}

#[test]
fn all_alternatives_of_a_function_are_rewritten() {
    if !is_installed("gcc") || !is_installed("patch") {
        return;
    }
    let server = Server::new(
        "int number;",
        "#ifdef LONG
        static void last(struct request *r)
        {
            r->number += 100;
            done++;
            free(r);
        }
        #else
        static void last(struct request *r)
        {
            done++;
            free(r);
        }
        #endif
        static void first(struct request *r)
        {
            queue(r, last);
        }",
    );
    let (added, _) = server.added(&[]);
    assert_eq!(added.matches("stingy_free(STINGY_request, r);").count(), 2, "{added}");
    server.run_patched(&[]);
}

#[test]
fn a_structure_that_is_freed_as_the_one_that_it_begins_with_has_no_pool() {
    if !is_installed("gcc") || !is_installed("patch") {
        return;
    }
    let code = "static void last(struct request *r)
        {
            struct base *b = &r->derived->base;
            free(b);
            done++;
            free(r);
        }
        static void first(struct request *r)
        {
            r->derived = malloc(sizeof(struct derived));
            if (!r->derived)
                free(r->derived);
            queue(r, last);
        }";
    let members = "struct derived { struct base { int kind; } base; int number; } *derived;";
    let server = Server::new(members, code);
    let (_, notes) = server.added(MEMORY_ONLY);
    let at = server.line("free(b)");
    let expected =
        format!("{at}: `derived` keeps its allocator, because it may be freed here as `base`");
    assert!(notes.contains(&expected), "{notes}");
    server.run_patched(MEMORY_ONLY);
}

#[test]
fn memory_larger_than_its_bound_is_from_malloc() {
    if !is_installed("gcc") || !is_installed("patch") {
        return;
    }
    let code = "static void first(struct request *r);
        static void last(struct request *r)
        {
            for (size_t i = 0; i < r->length; i++)
                if (r->text[i] != 'x' || r->zeros[i] != 0)
                    abort();
            free(r->text);
            free(r->zeros);
            done++;
            free(r);
        }
        static size_t lengths[] = { 10, 1000, 64 };
        static void first(struct request *r)
        {
            static int turn;
            r->length = lengths[turn++];
            r->text = malloc(r->length);
            r->zeros = calloc(r->length, sizeof(char));
            memset(r->text, 'x', r->length);
            queue(r, last);
        }";
    let server = Server::with(
        "size_t length; char *text, *zeros;",
        &format!("static void first(struct request *r);\n{}{code}", crate::server::LOOP),
        &[],
        "[memory.sizes]\n\"request.text\" = 64\n\"request.zeros\" = 64\n",
    );
    let (added, _) = server.added(&[]);
    for expected in [
        "r->text = stingy_alloc_sized(STINGY_request_text, 1, r->length);",
        "r->zeros = stingy_zalloc_sized(STINGY_request_zeros, r->length, sizeof(char));",
    ] {
        assert!(added.contains(expected), "{added}");
    }
    server.run_patched(&[]);
}
