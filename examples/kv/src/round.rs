//! One round of a connection: the steps of all received commands are forked over the partitions at once, one
//! operation for each partition, joined once, and answered in order.
//!
//! The steps of an operation run in the order of the commands, and a round begins after the previous one has ended. So
//! the commands of a connection run in order on each key, although the partitions [migrate](crate::stages::Stages).

use phalanx::time::now;
use phalanx::{Call, CallError, join};
use smallvec::{SmallVec, smallvec};

use crate::command::{Command, Gather};
use crate::fixed;
use crate::reply::Reply;
use crate::resp::{Malformed, parse};
use crate::stages::Stages;
use crate::step::{Scan, Step, end_of_scan};

/// Number of steps after which a round takes no further command; the rest of the pipeline belongs to the next round.
/// So a single client does not keep a partition for long.
const MAX_STEPS: usize = 1024;

/// The steps in one partition, in order. A round with one step needs no memory of its own, here and below.
type Steps = SmallVec<[Step; 1]>;
/// The replies of the steps in one partition, in order.
type Replies = SmallVec<[Reply; 1]>;
/// The results of the partitions that a round uses.
pub(crate) type Results = SmallVec<[Result<Replies, CallError>; 1]>;

/// The commands of a round, in progress.
#[derive(Default)]
pub(crate) struct Round {
    /// The partitions that the round uses, each with its steps.
    used: SmallVec<[(usize, Steps); 1]>,
    /// For each step of all commands, in order, the index of its partition in `used`.
    places: SmallVec<[usize; 1]>,
    answers: SmallVec<[Answer; 1]>,
    /// Whether the connection closes after this round: by request of the client, or because of malformed input.
    pub(crate) last: bool,
}

/// How a command is answered.
enum Answer {
    Ready(Reply),
    /// From the replies of its steps, of this number.
    From(usize, Gather),
}

impl Round {
    /// Takes the complete requests at the beginning of `input`. Returns their size.
    pub(crate) fn take(&mut self, stages: &Stages, input: &[u8]) -> usize {
        let mut taken = 0;
        while self.places.len() < MAX_STEPS && self.answers.len() < MAX_STEPS && !self.last {
            match parse(&input[taken..]) {
                Ok(None) => break,
                Ok(Some((request, length))) => {
                    taken += length;
                    if !request.is_empty() {
                        let answer = self.add(stages, Command::parse(request));
                        self.answers.push(answer);
                    }
                }
                Err(Malformed(message)) => {
                    taken = input.len();
                    self.last = true;
                    let error = Reply::error(format!("ERR Protocol error: {message}"));
                    self.answers.push(Answer::Ready(error));
                }
            }
        }
        taken
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    /// Adds the steps of `command`.
    fn add(&mut self, stages: &Stages, command: Command<'_>) -> Answer {
        let before = self.places.len();
        let gather = match command {
            Command::Answer(reply) => return Answer::Ready(reply),
            Command::Quit => {
                self.last = true;
                return Answer::Ready(Reply::OK);
            }
            Command::One(key, action) => {
                let (partition, key) = stages.locate(&key);
                self.step(partition, Step::Key(key, action));
                Gather::One
            }
            Command::Each(keys, gather) => {
                for (key, action) in keys {
                    let (partition, key) = stages.locate(&key);
                    self.step(partition, Step::Key(key, action));
                }
                gather
            }
            Command::Everywhere(whole, gather) => {
                for partition in 0..stages.store.partitions_count() {
                    self.step(partition, Step::PartitionAction(whole.clone()));
                }
                gather
            }
            Command::Scan { cursor, pattern, count } => {
                match Scan::at(cursor, stages.store.partitions_count(), count, pattern) {
                    Some(scan) => self.step(scan.partition, Step::Scan(scan)),
                    None => return Answer::Ready(end_of_scan(Vec::new())),
                }
                Gather::One
            }
        };
        Answer::From(self.places.len() - before, gather)
    }

    fn step(&mut self, partition: usize, step: Step) {
        let place = self.used.iter().position(|(other, _)| *other == partition);
        let place = place.unwrap_or_else(|| {
            self.used.push((partition, Steps::new()));
            self.used.len() - 1
        });
        self.used[place].1.push(step);
        self.places.push(place);
    }

    /// Executes the steps of all commands, with one operation for each partition. There is one suspension for the whole
    /// pipeline, however many partitions it uses.
    pub(crate) async fn run(&mut self, stages: &Stages) -> Results {
        let call = |(partition, steps)| call(stages, partition, steps);
        if self.used.len() > 1 {
            let calls: Vec<_> = self.used.drain(..).map(call).collect();
            return join(calls).await.into();
        }
        match self.used.pop().map(call) {
            // Runs immediately if the partition belongs to this processor, because the stage is direct.
            Some(only) => smallvec![only.await],
            None => Results::new(),
        }
    }

    /// The answers in order, given the results of the operations.
    pub(crate) fn answers(self, results: Results) -> impl Iterator<Item = Reply> {
        let mut replies: SmallVec<[_; 1]> =
            results.into_iter().map(|result| result.map(IntoIterator::into_iter)).collect();
        let mut steps = self.places.into_iter().map(move |place| next_reply(&mut replies[place]));
        self.answers.into_iter().map(move |answer| match answer {
            Answer::Ready(reply) => reply,
            Answer::From(count, gather) => gathered(steps.by_ref().take(count), gather),
        })
    }
}

/// Calls `steps` in one partition.
fn call(stages: &Stages, partition: usize, steps: Steps) -> Call<Replies> {
    stages.store.call_partition(partition, move |partition| async move {
        let run = |step: Step| partition.with(|store| step.run(store, now()));
        steps.into_iter().map(run).collect()
    })
}

fn next_reply(replies: &mut Result<smallvec::IntoIter<[Reply; 1]>, CallError>) -> Reply {
    match replies {
        Ok(replies) => replies.next().unwrap_or(Reply::Nil),
        // The processor is full or the operation failed: the client receives an error and may continue.
        Err(error) => {
            let message = error.to_string().replace(['\r', '\n'], " ");
            Reply::error(format!("ERR {message}"))
        }
    }
}

/// Combines the replies of a command's steps. An error of one is the answer.
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
