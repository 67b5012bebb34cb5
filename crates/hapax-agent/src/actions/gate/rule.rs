//! One rule: its text, compiled and bounded when it is read, so that nothing about it can surprise when it is asked.
//!
//! The parser needs a deep stack for hostile texts, so it runs on a thread that has one.

use std::sync::Arc;

use cel::common::ast::{CallExpr, EntryExpr, Expr, LiteralValue, SourceInfo};
use cel::parser::{ParseErrors, Parser};
use cel::{Context, ExecutionError, IdedExpr, Value};
use hapax_core::limits as core_limits;

use super::{Decision, span, walk};
use crate::limits;

/// The variables that a rule can name.
pub(super) const VARIABLES: [&str; 7] =
    ["tenant", "project", "connector", "tool", "args", "entity_key", "hints"];

/// The function that counts what began lately.
pub(super) const RECENT: &str = "recent";

/// A rule that can be asked.
#[derive(Clone, Debug)]
pub struct Rule {
    pub(super) name: Arc<str>,
    pub(super) decision: Decision,
    /// Whether it asks what began lately.
    pub(super) counts: bool,
    /// Whether it walks lists or maps.
    pub(super) walks: bool,
    expression: Arc<IdedExpr>,
}

/// What is wrong with the text of a rule, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1.
    pub column: usize,
    /// What is wrong there.
    pub what: String,
}

impl std::fmt::Display for Mistake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Mistake { line, column, what } = self;
        write!(f, "line {line}, column {column} of the rule: {what}")
    }
}

impl Rule {
    /// Compiles a rule: `when` is a CEL expression that is true or false.
    pub fn compile(name: &str, when: &str, decision: Decision) -> Result<Self, Mistake> {
        let at_start = |what: String| Mistake { line: 1, column: 1, what };
        if when.len() > limits::MAX_RULE_BYTES {
            let most = limits::MAX_RULE_BYTES / 1024;
            return Err(at_start(format!("a rule has at most {most} KiB")));
        }
        brackets(when)?;
        let source = when.to_owned();
        let parsing = std::thread::Builder::new()
            .name("hapax-rule".into())
            .stack_size(limits::RULE_STACK_BYTES)
            .spawn(move || parse(&source));
        let parsing = parsing.map_err(|error| at_start(format!("no thread to read the rule on: {error}")))?;
        let seen = parsing.join().map_err(|_| at_start("the rule cannot be read".into()))??;
        let Seen { expression, counts, walks } = seen;
        Ok(Rule { name: name.into(), decision, counts, walks, expression: Arc::new(expression) })
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it matches, or why that cannot be said.
    pub(super) fn matches(&self, context: &Context<'_, '_>) -> Result<bool, String> {
        match Value::resolve(&self.expression, context) {
            Ok(Value::Bool(matches)) => Ok(matches),
            Ok(other) => Err(format!("it is neither true nor false, but {}", other.type_of())),
            Err(error) => Err(excerpt(&told(&error))),
        }
    }
}

/// What went wrong, by names and types: what the arguments said is not told.
fn told(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(name) => format!("there is no {name:?}"),
        ExecutionError::NoSuchOverload(error) => error.to_string(),
        ExecutionError::UndeclaredReference(name) => format!("there is no variable or function {name:?}"),
        ExecutionError::FunctionError { function, message } if function == walk::COUNTED => message.clone(),
        ExecutionError::FunctionError { function, message } => format!("{function}: {message}"),
        other => {
            let text = format!("{other:?}");
            text.split(['(', ' ', '{']).next().unwrap_or_default().to_owned()
        }
    }
}

fn excerpt(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(limits::EXCERPT_CHARS).collect()
}

/// Refuses brackets that nest too deep before anything is parsed, with their place.
fn brackets(when: &str) -> Result<(), Mistake> {
    let (mut depth, mut quote, mut escaped) = (0_usize, None, false);
    let (mut line, mut column) = (1, 0);
    for c in when.chars() {
        column += 1;
        match (quote, c) {
            _ if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), c) if open == c => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => depth = depth.saturating_sub(1),
            _ => {}
        }
        if c == '\n' {
            (line, column) = (line + 1, 0);
        }
        if depth > limits::MAX_RULE_DEPTH {
            return Err(Mistake { line, column, what: too_deep() });
        }
    }
    Ok(())
}

fn too_deep() -> String {
    format!("a rule nests at most {} deep", limits::MAX_RULE_DEPTH)
}

/// What was read.
struct Seen {
    expression: IdedExpr,
    counts: bool,
    walks: bool,
}

fn parse(source: &str) -> Result<Seen, Mistake> {
    // The depth of brackets was looked at; the parser's own bound is for whatever else it counts.
    let parser = Parser::default().max_recursion_depth(2 * limits::MAX_RULE_DEPTH as u16);
    let (mut expression, source) = parser.parse_with_source_info(source).map_err(first)?;
    let mut look = Look { source: &source, names: Vec::new(), counts: false, walks: false };
    look.at(&expression, 1, 0)?;
    look.can_be_true(&expression)?;
    let Look { counts, walks, .. } = look;
    walk::count(&mut expression);
    Ok(Seen { expression, counts, walks })
}

fn first(errors: ParseErrors) -> Mistake {
    let error = errors.errors.into_iter().next();
    let (pos, what) = error.map_or_else(Default::default, |error| (error.pos, error.msg));
    let place = |at: isize| usize::try_from(at).unwrap_or(1).max(1);
    let what = match what.contains("Recursion limit") {
        true => too_deep(),
        false => excerpt(&what),
    };
    Mistake { line: place(pos.0), column: place(pos.1), what }
}

/// Looks through an expression for what cannot be meant, and for what would cost too much.
struct Look<'s> {
    source: &'s SourceInfo,
    /// Names that comprehensions give to their elements.
    names: Vec<String>,
    counts: bool,
    walks: bool,
}

impl Look<'_> {
    fn mistake(&self, id: u64, what: String) -> Mistake {
        let start = self.source.offset_for(id).map_or(0, |(start, _)| start as usize);
        // Offsets count characters.
        let before: String = self.source.source.chars().take(start).collect();
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Mistake { line, column, what }
    }

    fn at(&mut self, node: &IdedExpr, depth: usize, within: usize) -> Result<(), Mistake> {
        if depth > limits::MAX_RULE_DEPTH {
            return Err(self.mistake(node.id, too_deep()));
        }
        let deeper = depth + 1;
        match &node.expr {
            Expr::Unspecified | Expr::Literal(_) => Ok(()),
            Expr::Ident(name) => self.known(node.id, name),
            Expr::Select(select) => self.at(&select.operand, deeper, within),
            Expr::List(list) => list.elements.iter().try_for_each(|item| self.at(item, deeper, within)),
            Expr::Call(call) => {
                self.function(node.id, call)?;
                // Of a name in front of a function, only the last part tells whether it is one.
                if let Some(target) = &call.target {
                    self.at(target, deeper, within)?;
                }
                call.args.iter().try_for_each(|arg| self.at(arg, deeper, within))
            }
            Expr::Map(map) => {
                map.entries.iter().try_for_each(|entry| self.entry(&entry.expr, deeper, within))
            }
            Expr::Struct(made) => {
                made.entries.iter().try_for_each(|entry| self.entry(&entry.expr, deeper, within))
            }
            Expr::Comprehension(walk) => {
                self.walks = true;
                if within >= limits::MAX_RULE_WALKS {
                    let most = limits::MAX_RULE_WALKS;
                    let what =
                        format!("a rule walks lists and maps at most {most} deep: all, exists, map, filter");
                    return Err(self.mistake(node.id, what));
                }
                self.at(&walk.iter_range, deeper, within)?;
                let known = self.names.len();
                let more = [Some(&walk.iter_var), walk.iter_var2.as_ref(), Some(&walk.accu_var)];
                self.names.extend(more.into_iter().flatten().cloned());
                for part in [&walk.accu_init, &walk.loop_cond, &walk.loop_step, &walk.result] {
                    self.at(part, deeper, within + 1)?;
                }
                self.names.truncate(known);
                Ok(())
            }
        }
    }

    fn entry(&mut self, entry: &EntryExpr, depth: usize, within: usize) -> Result<(), Mistake> {
        match entry {
            EntryExpr::StructField(field) => self.at(&field.value, depth, within),
            EntryExpr::MapEntry(entry) => {
                self.at(&entry.key, depth, within)?;
                self.at(&entry.value, depth, within)
            }
        }
    }

    fn known(&self, id: u64, name: &str) -> Result<(), Mistake> {
        let is_type = |name: &str| {
            ["bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"]
                .contains(&name)
        };
        if VARIABLES.contains(&name) || is_type(name) || self.names.iter().any(|known| known == name) {
            return Ok(());
        }
        let what = format!("no variable is called {name:?}; there are {}", VARIABLES.join(", "));
        Err(self.mistake(id, what))
    }

    /// A function that there is, called as it is meant. `recent` counts in the lane, which is read only where it is called as itself.
    fn function(&mut self, id: u64, call: &CallExpr) -> Result<(), Mistake> {
        // A dot in front means the outermost scope, which is the only one that functions are in.
        let name = call.func_name.trim_start_matches('.');
        if name != RECENT {
            return match is_function(name, call.target.is_some()) {
                true => Ok(()),
                false => Err(self.mistake(id, format!("no function is called {name:?}"))),
            };
        }
        if call.target.is_some() {
            return Err(self.mistake(id, "recent has nothing in front of it: recent(tool, \"1h\")".into()));
        }
        self.counts = true;
        self.recent(id, &call.args)
    }

    /// A rule whose answer is never true or false is none.
    fn can_be_true(&self, rule: &IdedExpr) -> Result<(), Mistake> {
        let never = match &rule.expr {
            Expr::Literal(literal) => !matches!(literal, LiteralValue::Boolean(_)),
            Expr::Ident(name) => VARIABLES.contains(&name.as_str()),
            Expr::List(_) | Expr::Map(_) | Expr::Struct(_) => true,
            _ => false,
        };
        match never {
            true => Err(self.mistake(rule.id, "a rule is an expression that is true or false".into())),
            false => Ok(()),
        }
    }

    /// A span that is written out is checked now; one that is computed, when it is asked.
    fn recent(&self, id: u64, args: &[IdedExpr]) -> Result<(), Mistake> {
        let [_, of] = args else {
            return Err(
                self.mistake(id, "recent takes a tool and a span, such as recent(tool, \"1h\")".into())
            );
        };
        let Expr::Literal(LiteralValue::String(text)) = &of.expr else { return Ok(()) };
        match span(text.inner()) {
            Some(span) if span <= core_limits::RECENT_KEPT => Ok(()),
            _ => Err(self.mistake(of.id, span_rule())),
        }
    }
}

/// Whether CEL has a function of this name. Called without arguments, one that it has complains of something else than its name.
fn is_function(name: &str, of_something: bool) -> bool {
    if name.contains(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
        // An operator.
        return true;
    }
    let nothing = IdedExpr { id: 0, expr: Expr::Literal(LiteralValue::Null) };
    let target = of_something.then(|| Box::new(nothing));
    let call = CallExpr { func_name: name.to_owned(), target, args: Vec::new() };
    let asked = IdedExpr { id: 0, expr: Expr::Call(call) };
    !matches!(Value::resolve(&asked, &Context::default()), Err(ExecutionError::UndeclaredReference(_)))
}

/// What a span of `recent` is.
pub(super) fn span_rule() -> String {
    let most = core_limits::RECENT_KEPT.as_secs() / (24 * 60 * 60);
    format!("a span of recent is a number with s, m, h or d, such as \"1h\", and at most {most}d")
}
