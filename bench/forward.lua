-- Ask for another small object in every request.
-- Arguments: file with the head of a request, in which twelve zeros stand wherever its number goes, first number, and a
-- file with signatures, or an empty name. The head of a signed request has sixty-four zeros for its signature; the
-- n-th of the file is the signature of the number n. They are made in advance, so that signing costs the load nothing.
-- The number starts again when the signatures are used up.

local before, behind, counter, signatures, known

local function read(name)
  local file = assert(io.open(name, "rb"))
  local text = file:read("*a")
  file:close()
  return text
end

local number = "000000000000"
local signature = string.rep("0", 64)

local function split(text)
  local pieces, from = {}, 1
  while true do
    local at = text:find(number, from, true)
    if not at then break end
    pieces[#pieces + 1] = text:sub(from, at - 1)
    from = at + #number
  end
  pieces[#pieces + 1] = text:sub(from)
  return pieces
end

function init(args)
  local head = read(args[1])
  counter = tonumber(args[2])
  if args[3] ~= "" then
    signatures = read(args[3])
    known = #signatures / #signature
    -- Cut out first: its zeros would be taken for numbers.
    local at = assert(head:find(signature, 1, true))
    behind = split(head:sub(at + #signature))
    head = head:sub(1, at - 1)
  end
  before = split(head)
end

function request()
  counter = counter + 1
  if not signatures then
    return table.concat(before, string.format("%012d", counter))
  end
  local signed = counter % known
  local text = string.format("%012d", signed)
  local at = signed * #signature
  return table.concat(before, text) .. signatures:sub(at + 1, at + #signature) .. table.concat(behind, text)
end

function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format(
    '\n{"requests":%d,"microseconds":%d,"not_200":%d,"broken":%d,"p50":%.1f,"p99":%.1f}\n',
    summary.requests, summary.duration, errors.status,
    errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(50), latency:percentile(99)))
end
