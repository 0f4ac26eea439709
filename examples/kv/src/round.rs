//! One round of a connection: all received commands are forked over the partitions at once, joined once, and
//! answered in order.

use phalanx::time::now;
use phalanx::{Call, CallError};

use crate::command::{Command, Gather, Whole};
use crate::fixed;
use crate::reply::Reply;
use crate::resp::{Malformed, parse};
use crate::stages::Stages;
use crate::store::Store;

/// Number of forked operations after which a round takes no further command; the rest of the pipeline belongs to
/// the next round. So a single client does not fill the queues.
const MAX_FORKS: usize = 1024;

/// The commands of a round, in progress.
#[derive(Default)]
pub(crate) struct Round {
    /// The operations of all commands, in order.
    pub(crate) calls: Vec<Call<Reply>>,
    answers: Vec<Answer>,
    /// Whether the connection closes after this round: by request of the client, or because of malformed input.
    pub(crate) last: bool,
}

/// How a command is answered.
enum Answer {
    Ready(Reply),
    /// From the results of its operations, of this number.
    From(usize, Gather),
}

impl Round {
    /// Takes the complete requests at the beginning of `input` and calls their operations. Returns the size of
    /// the requests.
    pub(crate) fn fork(&mut self, stages: &Stages, input: &[u8]) -> usize {
        let mut taken = 0;
        while self.calls.len() < MAX_FORKS && self.answers.len() < MAX_FORKS && !self.last {
            match parse(&input[taken..]) {
                Ok(None) => break,
                Ok(Some((request, length))) => {
                    taken += length;
                    if !request.is_empty() {
                        let answer = self.invoke(stages, Command::understand(request));
                        self.answers.push(answer);
                    }
                }
                Err(Malformed(what)) => {
                    taken = input.len();
                    self.last = true;
                    let error = Reply::error(format!("ERR Protocol error: {what}"));
                    self.answers.push(Answer::Ready(error));
                }
            }
        }
        taken
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    fn invoke(&mut self, stages: &Stages, command: Command) -> Answer {
        let before = self.calls.len();
        let gather = match command {
            Command::Answer(reply) => return Answer::Ready(reply),
            Command::Quit => {
                self.last = true;
                return Answer::Ready(Reply::OK);
            }
            Command::One(key, action) => {
                self.calls.push(stages.on_key(key, action));
                Gather::One
            }
            Command::Each(keys, gather) => {
                self.calls.extend(keys.into_iter().map(|(key, action)| stages.on_key(key, action)));
                gather
            }
            Command::Everywhere(whole, gather) => {
                let partitions = 0..stages.store.partitions_count();
                self.calls
                    .extend(partitions.map(|partition| everywhere(stages, partition, &whole)));
                gather
            }
            Command::Scan { cursor, pattern, count } => {
                match scan(stages, cursor, pattern, count) {
                    Some(call) => self.calls.push(call),
                    None => return Answer::Ready(end_of_scan(Vec::new())),
                }
                Gather::One
            }
        };
        Answer::From(self.calls.len() - before, gather)
    }

    /// Writes all answers to `out`, given the results of all operations.
    pub(crate) fn answer(self, results: Vec<Result<Reply, CallError>>, out: &mut Vec<u8>) {
        let mut results = results.into_iter().map(|result| {
            // The processor is full or the operation failed: the client receives an error and may continue.
            result.unwrap_or_else(|error| {
                let what = error.to_string().replace(['\r', '\n'], " ");
                Reply::error(format!("ERR {what}"))
            })
        });
        for answer in self.answers {
            match answer {
                Answer::Ready(reply) => reply.write(out),
                Answer::From(children, gather) => {
                    gathered(results.by_ref().take(children), gather).write(out);
                }
            }
        }
    }
}

fn everywhere(stages: &Stages, partition: usize, whole: &Whole) -> Call<Reply> {
    let whole = whole.clone();
    let apply = move |store: &mut Store| match whole {
        Whole::Count => Reply::Integer(store.count() as i64),
        Whole::Clear => {
            store.clear();
            Reply::OK
        }
        Whole::Keys(pattern) => Reply::Array(store.scan(usize::MAX, usize::MAX, &pattern, now()).1),
    };
    stages.store.call_partition(partition, move |partition| async move { partition.with(apply) })
}

/// A step of SCAN. A cursor consists of the partition (its low 16 bits) and the position in it; zero is both the
/// beginning and the end. `None` if there is no such partition.
fn scan(stages: &Stages, cursor: u64, pattern: Vec<u8>, count: usize) -> Option<Call<Reply>> {
    const BITS: u32 = 16;
    const ALL: usize = usize::MAX >> BITS;
    let (partitions, partition) = (stages.store.partitions_count(), cursor as usize & 0xffff);
    let before = if cursor == 0 { ALL } else { (cursor >> BITS) as usize };
    (partition < partitions).then(|| {
        stages.store.call_partition(partition, move |state| async move {
            let (next, found) = state.with(|store| store.scan(before, count, &pattern, now()));
            let (partition, next) = if next > 0 { (partition, next) } else { (partition + 1, ALL) };
            if partition == partitions {
                return end_of_scan(found);
            }
            let cursor = (next as u64) << BITS | partition as u64;
            Reply::Array(vec![Reply::bulk(cursor.to_string()), Reply::Array(found)])
        })
    })
}

fn end_of_scan(found: Vec<Reply>) -> Reply {
    Reply::Array(vec![Reply::bulk("0"), Reply::Array(found)])
}

/// Combines the results of a command's operations. An error of one is the answer.
fn gathered(mut results: impl Iterator<Item = Reply>, gather: Gather) -> Reply {
    let mut results: Vec<Reply> = match gather {
        Gather::One => return results.next().unwrap_or(Reply::Nil),
        _ => results.collect(),
    };
    if let Some(error) = results.iter().position(|reply| matches!(reply, Reply::Error(_))) {
        return results.swap_remove(error);
    }
    let numbers = results.iter().map(|reply| if let Reply::Integer(n) = reply { *n } else { 0 });
    match gather {
        Gather::One | Gather::List => Reply::Array(results),
        Gather::Sum => Reply::Integer(numbers.sum()),
        Gather::Done => Reply::OK,
        Gather::Info => fixed::info(numbers.sum(), now()),
        Gather::Flatten => {
            let lists = results.into_iter();
            Reply::Array(
                lists
                    .flat_map(
                        |reply| if let Reply::Array(list) = reply { list } else { vec![reply] },
                    )
                    .collect(),
            )
        }
    }
}
