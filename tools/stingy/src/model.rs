//! The analysis of a server: the output of `memwalk`, and the input of `stingygen` and `stingify`.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::memwalk::config::Spill;

/// Name of the pseudo-stage that stands for the scheduler itself, which accepts requests.
pub(crate) const ENTRY: &str = "entry";

/// A position in a source file.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub(crate) struct Place {
    pub(crate) file: PathBuf,
    /// The first line is 1.
    pub(crate) line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

/// An edge of the stage call graph: a stage queues a request for another.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub(crate) struct Transition {
    pub(crate) from: String,
    pub(crate) to: String,
    /// The call, the assignment, or the end of a `case` that continues with the next.
    pub(crate) at: Place,
    /// The function that contains it.
    pub(crate) function: String,
}

/// A stage, and the memory of a request at it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Stage {
    pub(crate) name: String,
    pub(crate) at: Place,
    /// Objects that the stage may allocate.
    pub(crate) allocates: Vec<String>,
    /// Objects that the stage frees on every path. They do not count after it.
    pub(crate) frees: Vec<String>,
    /// Objects that the stage frees on some paths. They count as live after it.
    pub(crate) may_free: Vec<String>,
    /// Objects that may be live when the stage starts.
    pub(crate) live: Vec<String>,
    /// Bytes of the objects that are live during the stage: an upper bound for each request.
    pub(crate) bytes: u64,
    /// Bytes of stack, if the compiler's stack usage was available.
    pub(crate) stack: Option<u64>,
    /// The results of a run, if it visited the stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) traced: Option<Traced>,
}

/// The memory that requests had at a stage in a run: maxima over the visits.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Traced {
    pub(crate) visits: u64,
    /// Bytes of the objects that were live together.
    pub(crate) bytes: u64,
    /// Bytes of other memory, allocated since the first visit of a stage.
    pub(crate) elsewhere: u64,
    /// Bytes of stack, with the functions of libraries; `None` for the entry.
    pub(crate) stack: Option<u64>,
    pub(crate) objects: Vec<TracedObject>,
}

/// The memory of an object at a stage in a run.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct TracedObject {
    pub(crate) name: String,
    pub(crate) bytes: u64,
}

/// Memory that a run allocated for no object of the analysis.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Elsewhere {
    /// `None`: code without a line, such as that of libraries.
    pub(crate) at: Option<Place>,
    /// The maximum of the run.
    pub(crate) bytes: u64,
}

/// An allocation or a deallocation of an object.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub(crate) struct Site {
    pub(crate) at: Place,
    pub(crate) function: String,
    /// The allocating or deallocating function.
    pub(crate) calls: String,
}

/// A kind of memory that is allocated for each request.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Object {
    pub(crate) name: String,
    /// `None`: the size is determined at run time and the configuration states no bound.
    pub(crate) bytes: Option<u64>,
    pub(crate) allocated: Vec<Site>,
    pub(crate) freed: Vec<Site>,
    /// The description wants a pool for it.
    pub(crate) is_pooled: bool,
}

/// A static variable.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Global {
    pub(crate) name: String,
    pub(crate) bytes: u64,
}

/// A construct that the analysis does not understand, or that makes its result imprecise.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub(crate) struct Warning {
    pub(crate) at: Place,
    pub(crate) what: String,
}

/// A server's stages, objects and memory.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Analysis {
    pub(crate) program: PathBuf,
    /// In the order of a request: by the least number of transitions from the entry, which is the first.
    pub(crate) stages: Vec<Stage>,
    pub(crate) transitions: Vec<Transition>,
    /// Objects that stages allocate.
    pub(crate) objects: Vec<Object>,
    /// Bytes of all writable static variables.
    pub(crate) global_bytes: u64,
    /// The largest writable static variables.
    pub(crate) globals: Vec<Global>,
    /// The largest stack of a stage.
    pub(crate) stack: Option<u64>,
    pub(crate) warnings: Vec<Warning>,
    /// Allocates if a pool is empty.
    pub(crate) spill: Option<Spill>,
    /// The places that allocated the most memory outside of the analysis, if a run was traced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) elsewhere: Vec<Elsewhere>,
}

impl Analysis {
    /// Reads the JSON that `memwalk --json` has printed.
    pub(crate) fn load(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(Error::read(path))?;
        serde_json::from_str(&text).map_err(|error| {
            let what = format!("{error}; the file must be the output of `memwalk --json`");
            Error::contents(path, what)
        })
    }
}
