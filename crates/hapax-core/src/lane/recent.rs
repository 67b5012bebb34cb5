//! Which actions began in a lane lately: what a rule counts when it asks for `recent(tool, span)` (X6).
//!
//! Of each tool the latest times are kept. What is not kept any more is marked by its latest time, so that a count that would reach
//! back beyond it fails instead of coming out too small.

use std::time::Duration;

use crate::limits;
use crate::time::Timestamp;

/// The actions that began lately, by tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Recent {
    tools: Vec<RecentTool>,
    /// The latest time of any tool that is not kept any more.
    forgotten: Timestamp,
}

/// The times of one tool.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecentTool {
    /// Its name.
    pub name: String,
    /// When its actions began, the earliest first.
    pub times: Vec<Timestamp>,
    /// The latest time that is not kept any more.
    pub forgotten: Timestamp,
}

impl Recent {
    /// As it was stored.
    pub fn new(tools: Vec<RecentTool>, forgotten: Timestamp) -> Self {
        Recent { tools, forgotten }
    }

    /// What is kept of each tool.
    pub fn tools(&self) -> &[RecentTool] {
        &self.tools
    }

    /// The latest time of any tool that is not kept any more.
    pub fn forgotten(&self) -> Timestamp {
        self.forgotten
    }

    /// Whether anything is kept.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty() && self.forgotten == Timestamp::ZERO
    }

    /// How many actions of this tool began within this span before now; `None` where what is kept does not reach back that far.
    pub fn count(&self, tool: &str, span: Duration, now: Timestamp) -> Option<usize> {
        let from = now.before(span);
        if span > limits::RECENT_KEPT {
            return None;
        }
        let Some(tool) = self.tools.iter().find(|kept| kept.name == tool) else {
            return is_before(self.forgotten, from).then_some(0);
        };
        is_before(tool.forgotten, from).then(|| tool.times.iter().filter(|time| **time >= from).count())
    }

    /// An action of this tool begins.
    pub(super) fn add(&mut self, tool: &str, now: Timestamp) {
        self.drop_what_no_count_reaches(now);
        let at = self.tools.iter().position(|kept| kept.name == tool).unwrap_or_else(|| self.new_tool(tool));
        let tool = &mut self.tools[at];
        tool.times.push(now);
        if tool.times.len() > limits::RECENT_TIMES {
            tool.forgotten = tool.forgotten.max(tool.times.remove(0));
        }
    }

    fn new_tool(&mut self, name: &str) -> usize {
        if self.tools.len() >= limits::RECENT_TOOLS {
            let latest =
                |tool: &RecentTool| tool.times.last().copied().unwrap_or_default().max(tool.forgotten);
            let oldest = (0..self.tools.len()).min_by_key(|at| latest(&self.tools[*at])).unwrap_or_default();
            let gone = self.tools.remove(oldest);
            self.forgotten = self.forgotten.max(latest(&gone));
        }
        self.tools.push(RecentTool { name: name.to_owned(), times: Vec::new(), forgotten: self.forgotten });
        self.tools.len() - 1
    }

    fn drop_what_no_count_reaches(&mut self, now: Timestamp) {
        let from = now.before(limits::RECENT_KEPT);
        for tool in &mut self.tools {
            tool.times.retain(|time| *time >= from);
        }
        self.tools.retain(|tool| !tool.times.is_empty() || tool.forgotten >= from);
    }
}

/// Whether everything that is not kept any more was before this.
fn is_before(forgotten: Timestamp, from: Timestamp) -> bool {
    forgotten == Timestamp::ZERO || forgotten < from
}
