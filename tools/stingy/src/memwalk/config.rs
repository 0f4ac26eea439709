//! The description of a server that replaces annotations in its sources: `stingy.toml`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Functions of the C library that allocate what `free` frees, with the indexes of size and number.
pub(crate) const STANDARD: [(&str, usize, Option<usize>); 5] = [
    ("malloc", 0, None),
    ("calloc", 1, Some(0)),
    ("realloc", 1, None),
    ("reallocarray", 2, Some(1)),
    ("aligned_alloc", 1, None),
];

/// A `stingy.toml`. Paths are relative to its folder.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Config {
    /// The folder of the file.
    #[serde(skip)]
    pub(crate) folder: PathBuf,
    /// The path of the file.
    #[serde(skip)]
    pub(crate) path: PathBuf,
    /// C files, and folders of C files.
    pub(crate) sources: Vec<PathBuf>,
    /// The program built from them with `-g`.
    pub(crate) program: PathBuf,
    /// A folder with the files of `-fstack-usage`.
    pub(crate) stack_usage: Option<PathBuf>,
    pub(crate) stages: Stages,
    #[serde(default)]
    pub(crate) memory: Memory,
}

/// How the server represents stages.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Stages {
    /// The function with the event loop.
    pub(crate) scheduler: String,
    /// The function that executes the current stage of a request.
    pub(crate) schedule: String,
    /// Functions that queue a request for a stage. If stages are functions, these or `handlers` are not empty.
    #[serde(default)]
    pub(crate) queue: Vec<Queue>,
    /// Members that contain the function of the next stage.
    #[serde(default)]
    pub(crate) handlers: Vec<String>,
    /// If stages are enumerators.
    pub(crate) states: Option<States>,
    /// Further functions in which requests start, such as callbacks of an event library.
    #[serde(default)]
    pub(crate) entries: Vec<String>,
    /// Functions that are not followed, such as those for administrators.
    #[serde(default)]
    pub(crate) cut: Vec<String>,
    /// Functions that wait for events of requests.
    #[serde(default)]
    pub(crate) wait: Vec<Wait>,
}

impl Stages {
    /// Whether an assignment to a member changes the stage.
    pub(crate) fn is_stage(&self, member: &str) -> bool {
        self.states.as_ref().is_some_and(|states| states.member == member)
            || self.handlers.iter().any(|handler| handler == member)
    }
}

/// A function that waits for events.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wait {
    pub(crate) function: String,
    /// Index of the parameter with the maximum number of events.
    pub(crate) events: usize,
    /// Index of the parameter with the timeout, an integer.
    pub(crate) timeout: Option<usize>,
}

/// `QueueStage` of the paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Queue {
    pub(crate) function: String,
    /// Index of the parameter with the request.
    #[serde(default)]
    pub(crate) request: usize,
    /// Index of the parameter with the stage.
    pub(crate) stage: Option<usize>,
    /// The stage of a function that queues for one only.
    pub(crate) to: Option<String>,
}

/// Stages that are the values of a member.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct States {
    /// The name of the enumeration.
    pub(crate) enumeration: String,
    /// The member that contains the state.
    pub(crate) member: String,
    /// The function with the `switch` over it.
    pub(crate) dispatch: String,
}

/// How the server allocates.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Memory {
    /// In addition to [`STANDARD`].
    #[serde(default)]
    pub(crate) allocate: Vec<Allocate>,
    /// In addition to `free`.
    #[serde(default)]
    pub(crate) free: Vec<Free>,
    /// Upper bounds of objects whose size is determined at run time.
    #[serde(default)]
    pub(crate) sizes: BTreeMap<String, u64>,
    /// The objects that have pools; empty for all that stages allocate.
    #[serde(default)]
    pub(crate) objects: Vec<String>,
    /// Allocates if a pool is empty, instead of `malloc` and `free`.
    pub(crate) spill: Option<Spill>,
}

/// Functions with the parameters of `malloc` and `free`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spill {
    pub(crate) allocate: String,
    pub(crate) free: String,
    /// The server's name of `malloc_usable_size`, if it calls this for objects.
    pub(crate) size: Option<String>,
    /// The function that the name stands for, if it is a macro.
    pub(crate) usable: Option<String>,
}

/// A function that allocates.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Allocate {
    pub(crate) function: String,
    /// Index of the parameter with the size.
    pub(crate) size: Option<usize>,
    /// Index of the parameter with the number of elements.
    pub(crate) count: Option<usize>,
    /// The type that the function allocates, if no parameter states a size. Without it, the variable or member that the
    /// result is assigned to determines the type.
    pub(crate) object: Option<String>,
    /// The memory is initialized with zeros.
    #[serde(default)]
    pub(crate) zeroed: bool,
}

/// A function that frees its parameter.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Free {
    pub(crate) function: String,
    /// Index of the parameter with the memory.
    pub(crate) memory: usize,
}

impl Config {
    /// Reads a file, and adds the functions of the C library.
    pub(crate) fn load(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(Error::read(path))?;
        let mut config: Self =
            toml::from_str(&text).map_err(|error| Error::contents(path, error.to_string()))?;
        config.path = path.to_owned();
        config.folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let stages = &config.stages;
        if stages.queue.is_empty() && stages.handlers.is_empty() && stages.states.is_none() {
            let message = "`[stages]` needs `queue` or `handlers`, if stages are functions, or `states`, if they are \
                        enumerators";
            return Err(Error::contents(path, message));
        }
        if let Some(queue) = stages.queue.iter().find(|q| q.stage.is_some() == q.to.is_some()) {
            let message = format!(
                "`queue` of `{}` needs either `stage`, the index of a parameter, or `to`, the name of a stage",
                queue.function
            );
            return Err(Error::contents(path, message));
        }
        config.memory.allocate.extend(STANDARD.map(|(function, size, count)| Allocate {
            function: function.to_owned(),
            size: Some(size),
            count,
            object: None,
            zeroed: function == "calloc",
        }));
        config.memory.free.push(Free { function: "free".to_owned(), memory: 0 });
        Ok(config)
    }

    /// The allocation that a call of this function makes.
    pub(crate) fn allocation(&self, function: &str) -> Option<&Allocate> {
        self.memory.allocate.iter().find(|allocate| allocate.function == function)
    }

    /// The deallocation that a call of this function makes.
    pub(crate) fn deallocation(&self, function: &str) -> Option<&Free> {
        self.memory.free.iter().find(|free| free.function == function)
    }
}
