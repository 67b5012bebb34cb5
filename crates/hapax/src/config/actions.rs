//! What agents may do: `[actions]` and `[trust]`.
//!
//! A rule is compiled when it is read, so that one that cannot be understood is a mistake with its place and never a surprise.

use hapax_agent::actions::receipts::Args;
use hapax_agent::actions::{Decision, Gate, Rule};
use hapax_core::{Project, Tenant};

use super::section::Section;
use crate::limits;

/// The words for how receipts keep arguments.
pub(crate) const RECEIPTS: [(&str, Args); 2] = [("digest", Args::Digest), ("full", Args::Full)];

/// How actions are done.
#[derive(Clone, Debug, Default)]
pub struct ActionSettings {
    /// Whose actions are done where nothing else says so.
    pub whose: Option<(Tenant, Project)>,
    /// How receipts keep arguments.
    pub receipts: Args,
    /// Whether a repeated action is told the first one's result.
    pub include_result: bool,
}

/// Reads `[actions]`.
pub(crate) fn actions(section: &Section<'_>) -> ActionSettings {
    let own = section.section("as");
    let whose = own.exists().then(|| {
        own.require("tenant", "name the tenant");
        own.require("project", "name the project");
        let told = |error: hapax_core::Error| error.message().to_owned();
        let tenant = own.parsed("tenant", |text| Tenant::new(text).map_err(told));
        let project = own.parsed("project", |text| Project::new(text).map_err(told));
        Some((tenant?.value, project?.value))
    });
    ActionSettings {
        whose: whose.flatten(),
        receipts: section.word("receipts", &RECEIPTS).map_or(Args::default(), |args| args.value),
        include_result: section.flag("include_result").is_some_and(|flag| flag.value),
    }
}

/// What the gate decides, as it was written and as it is asked.
#[derive(Clone, Debug)]
pub struct Trust {
    /// What is decided where no rule matches.
    pub default: Decision,
    /// The rules, in their order.
    pub rules: Vec<TrustRule>,
    /// Both, ready to be asked.
    pub gate: Gate,
}

/// A rule as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustRule {
    /// Its name.
    pub name: String,
    /// When it matches.
    pub when: String,
    /// What it decides.
    pub decision: Decision,
}

/// Reads `[trust]`.
pub(crate) fn trust(section: &Section<'_>) -> Trust {
    let default = section.word("default", &Decision::WORDS).map_or(Decision::Allow, |word| word.value);
    let sections = section.sections("rules");
    if sections.len() > limits::TRUST_RULES {
        let what = format!("there are {} rules", sections.len());
        let remedy = format!("use at most {}", limits::TRUST_RULES);
        section.reader().mistake(&section.place("rules"), what, remedy);
        return Trust { default, rules: Vec::new(), gate: Gate::new(default) };
    }
    let mut rules: Vec<TrustRule> = Vec::with_capacity(sections.len());
    let mut compiled = Vec::with_capacity(sections.len());
    for own in &sections {
        let Some((written, rule)) = rule(own) else { continue };
        if rules.iter().any(|other| other.name == written.name) {
            let what = format!("two rules are called {:?}", written.name);
            own.reader().mistake(
                &own.place("name"),
                what,
                "give each its own name: receipts tell which one decided",
            );
        }
        rules.push(written);
        compiled.push(rule);
    }
    Trust { default, rules, gate: Gate::new(default).rules(compiled) }
}

fn rule(section: &Section<'_>) -> Option<(TrustRule, Rule)> {
    section.require("name", "name the rule, such as \"large refunds are blocked\"");
    section.require("when", "say when it matches, such as 'tool == \"orders.refund\" && args.amount > 1000'");
    section.require("decision", "say what it decides: \"ALLOW\", \"ALERT\" or \"BLOCK\"");
    let name = section.parsed("name", |text| {
        let fits = text.chars().count() <= limits::NAME_LENGTH && !text.chars().any(char::is_control);
        let rule = || format!("use at most {} printable characters", limits::NAME_LENGTH);
        fits.then(|| text.to_owned()).ok_or_else(rule)
    });
    let decision = section.word("decision", &Decision::WORDS);
    let when = section.text("when")?;
    let label = name.as_ref().map_or("", |name| &name.value);
    let compiled =
        Rule::compile(label, when.value, decision.as_ref().map_or(Decision::Block, |word| word.value));
    let compiled = compiled.map_err(|mistake| {
        let what = format!("`when` is no rule: {mistake}");
        section.reader().mistake(
            &when.at,
            what,
            "write a CEL expression that is true or false; see docs/guides/actions.md",
        );
    });
    let (name, decision) = (name?.value, decision?.value);
    Some((TrustRule { name, when: when.value.to_owned(), decision }, compiled.ok()?))
}
