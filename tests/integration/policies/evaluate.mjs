// Evaluates each case on standard input with the IAM simulator, and returns its verdict, or the reason why it has none.
// In:  {"policies": {name: [documents]}, "cases": [{"policies": name, "trust": document?, "principal", "action", "resource", "account", "context"}]}
// Out: [{"result": "Allowed" | "ImplicitlyDenied" | "ExplicitlyDenied", "error": "", "ignored": [context keys]}]
import { runSimulation } from '@cloud-copilot/iam-simulate'

const chunks = []
for await (const chunk of process.stdin) chunks.push(chunk)
const { policies, cases } = JSON.parse(Buffer.concat(chunks).toString('utf-8'))

async function evaluated(asked) {
  const documents = policies[asked.policies] ?? []
  const answer = await runSimulation(
    {
      request: {
        principal: asked.principal,
        action: asked.action,
        resource: { resource: asked.resource, accountId: asked.account },
        contextVariables: asked.context
      },
      identityPolicies: documents.map((policy, index) => ({ name: `${asked.policies}-${index}`, policy })),
      resourcePolicy: asked.trust ?? undefined,
      serviceControlPolicies: [],
      resourceControlPolicies: []
    },
    {}
  )
  if (answer.resultType === 'error') return { result: '', error: JSON.stringify(answer.errors), ignored: [] }
  const results = answer.resultType === 'single' ? [answer.result] : answer.results
  return {
    result: answer.overallResult,
    error: results.length === 1 ? '' : `${results.length} answers; a case must name one resource`,
    ignored: results.flatMap((result) => result.ignoredContextKeys ?? [])
  }
}

const answers = []
for (const asked of cases) answers.push(await evaluated(asked))
process.stdout.write(JSON.stringify(answers))
