// Deciding about a step of an execution that waits: it happened, it may run again, or it failed. A decision counts once.
import { html, useState } from "../html.js";
import { post } from "../api.js";
import { cli } from "../data.js";
import { quoted, visible } from "../text.js";
import { Copy, Facts, Field, Input } from "../ui.js";
import { JsonText } from "./answer.js";
import { Ask } from "./decision.js";

const CHOICES = [["confirm", "It happened", "The agent goes on with the result that you state."], ["rerun", "It may run again", "The tool is called once more with the same key."], ["fail", "It failed", "The agent is told so as the result of the step."]];
const read = text => { try { return { value: JSON.parse(text) }; } catch { return null; } };

export function DecideStep({ step, execution, close, done }) {
  const [seen] = useState(step);
  const [choice, choose] = useState("confirm"), [result, setResult] = useState("{}"), [error, setError] = useState(""), [force, setForce] = useState(false);
  const scope = { tenant: execution.tenant, project: execution.project };
  const run = async said => {
    await post(`/v1/executions/${encodeURIComponent(execution.execution_id)}/decide`, { ...scope, iteration: seen.iteration, call: seen.call, digest: seen.digest, epoch: seen.epoch, decision: choice, ...(choice === "confirm" ? { result: read(result).value } : choice === "fail" ? { error } : { force }), ...said });
    done();
  };
  const ready = choice === "confirm" ? read(result) !== null : choice === "fail" ? error.trim() !== "" : true;
  const line = (reason, by) => cli.other(`executions decide ${execution.execution_id} --tenant ${execution.tenant} --project ${execution.project} --iteration ${seen.iteration} --call ${seen.call} --${choice}${choice === "confirm" ? ` ${quoted(result)}` : choice === "fail" ? ` ${quoted(error || "…")}` : force ? " --force" : ""}`, { reason, by });
  return html`<${Ask} title=${`Step ${seen.iteration}.${seen.call}: ${visible(seen.tool)}`} verb=${CHOICES.find(([name]) => name === choice)[1]} ready=${ready} close=${close} run=${run} line=${line}>
    <${Facts} rows=${[["execution", html`<code>${visible(execution.execution_id)}</code>`], ["key", html`<code>${visible(seen.key)}</code> <${Copy} text=${seen.key} what="the key" />`], ["declared", seen.declaration.replace("_", " ").toLowerCase()], ["why it waits", seen.doubt ? `in doubt: ${seen.doubt}` : "it happened, and its result was not kept"], ["epoch", html`<code>${seen.epoch}</code>`]]} />
    ${seen.args !== undefined && html`<details><summary>Arguments</summary><${JsonText} text=${JSON.stringify(seen.args)} label="Arguments" /></details>`}
    <div class="choices" role="radiogroup" aria-label="What happened">${CHOICES.map(([name, title, words]) => html`<label class="choice" key=${name}><input type="radio" name="step" value=${name} checked=${choice === name} onChange=${() => choose(name)} /><b>${title}</b><span>${words}</span></label>`)}</div>
    ${choice === "confirm" && html`<${Field} id="result" label="Result" hint=${read(result) ? "valid JSON" : "not valid JSON"}><textarea id="result" rows="4" value=${result} onInput=${event => setResult(event.target.value)}></textarea><//>`}
    ${choice === "fail" && html`<${Field} id="step-error" label="What the agent is told"><${Input} id="step-error" value=${error} on=${setError} /><//>`}
    ${choice === "rerun" && html`<label class="check"><input type="checkbox" checked=${force} onChange=${event => setForce(event.target.checked)} /><span>Also while the former call may still be on its way.</span></label>`}
    <p class="outcome">The execution waits until it is resumed.</p><//>`;
}
