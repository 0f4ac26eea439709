//! Small servers whose stages are functions, with code of a test.

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::common::{output, run, stingy};

/// A folder with a server: `server.c`, further sources, and `stingy.toml`.
pub(crate) struct Server {
    folder: TempDir,
    sources: Vec<String>,
}

/// The queue of a server, behind the members of its requests.
const QUEUE: &str = "
typedef void stage(struct request *);
static struct request *ready;
static int active;
static void queue(struct request *r, stage *to)
{
    r->to = (void (*)(struct request *))to;
    r->next = ready;
    ready = r;
    active++;
}
static struct request *take(void)
{
    struct request *r = ready;
    ready = r->next;
    active--;
    return r;
}
static void run(struct request *r)
{
    r->to(r);
}
";

/// An event loop for three requests.
pub(crate) const LOOP: &str = "
static int left = 3, done;
static int has_request(void) { return left > 0; }
static void add(void)
{
    struct request *r = calloc(1, sizeof(*r));
    left--;
    queue(r, first);
}
static void loop(void)
{
    while (done < 3) {
        while (has_request())
            add();
        for (int n = active; n > 0; n--)
            run(take());
    }
}
";

impl Server {
    /// A server with these members of a request, the code of its stages, and its event loop. The code declares
    /// `first`, the first stage.
    pub(crate) fn new(members: &str, code: &str) -> Self {
        Self::with(
            members,
            &format!("static void first(struct request *r);\n{LOOP}{code}"),
            &[],
            "",
        )
    }

    /// A server with all its code, other sources, and further lines of the description.
    pub(crate) fn with(members: &str, code: &str, others: &[(&str, &str)], toml: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let text = format!(
            "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\nstruct request {{\n    \
             struct request *next;\n    void (*to)(struct request *);\n    {members}\n}};\n{QUEUE}{code}\n\
             int main(void)\n{{\n    loop();\n    return 0;\n}}\n"
        );
        let write = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).expect("a file");
        };
        write("server.c", &text);
        others.iter().for_each(|(name, text)| write(name, text));
        let is_source = |name: &&str| Path::new(name).extension().is_some_and(|of| of == "c");
        let names = others.iter().map(|(name, _)| *name).filter(is_source);
        let sources: Vec<String> =
            std::iter::once("server.c").chain(names).map(str::to_owned).collect();
        let description = format!(
            "sources = {sources:?}\nprogram = \"server\"\n[stages]\nscheduler = \"loop\"\nschedule = \"run\"\n\
             queue = [{{ function = \"queue\", stage = 1 }}]\n{toml}"
        );
        write("stingy.toml", &description);
        let this = Self { folder, sources };
        this.compile(&["-g", "-o", "server"]);
        this
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    fn compile(&self, arguments: &[&str]) {
        let sources: Vec<&str> = self.sources.iter().map(String::as_str).collect();
        run(self.path(), "gcc", &[arguments, &sources].concat());
    }

    /// The line of `server.c` that contains a text.
    pub(crate) fn line(&self, text: &str) -> String {
        let source = std::fs::read_to_string(self.path().join("server.c")).expect("the source");
        let at = source.lines().position(|line| line.contains(text)).expect("the text");
        format!("server.c:{}", at + 1)
    }

    pub(crate) fn analysis(&self) -> Value {
        serde_json::from_str(&stingy(self.path(), &["memwalk", "--json"])).expect("JSON")
    }

    /// The size of an object.
    pub(crate) fn bytes(&self, object: &str) -> Option<u64> {
        let analysis = self.analysis();
        let objects = analysis["objects"].as_array().expect("objects");
        objects.iter().find(|of| of["name"] == object).expect("the object")["bytes"].as_u64()
    }

    /// The patch and the notes; `Err` with the error.
    pub(crate) fn stingify(&self, arguments: &[&str]) -> Result<(String, String), String> {
        let all = [&["stingify"], arguments].concat();
        let output = output(self.path(), env!("CARGO_BIN_EXE_phalanx-stingy"), &all);
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let errors = text(&output.stderr);
        if output.status.success() { Ok((text(&output.stdout), errors)) } else { Err(errors) }
    }

    /// The lines that a patch adds.
    pub(crate) fn added(&self, arguments: &[&str]) -> (String, String) {
        let (patch, notes) = self.stingify(arguments).expect("a patch");
        let lines = patch.lines().filter(|line| line.starts_with('+'));
        (lines.map(|line| format!("{}\n", line[1..].trim())).collect(), notes)
    }

    /// The output of the patched server.
    pub(crate) fn run_patched(&self, arguments: &[&str]) -> String {
        let at = self.path();
        std::fs::write(at.join("server.json"), stingy(at, &["memwalk", "--json"])).expect("a file");
        stingy(at, &["stingygen", "server.json"]);
        let (patch, _) = self.stingify(arguments).expect("a patch");
        std::fs::write(at.join("server.patch"), patch).expect("a file");
        run(at, "patch", &["-s", "-p1", "-i", "server.patch"]);
        self.compile(&["-g", "-o", "patched", "stingy.c"]);
        run(at, "./patched", &[])
    }
}
