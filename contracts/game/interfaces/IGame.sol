// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {IQueries} from "./IQueries.sol";
import {IContests} from "./IContests.sol";
import {IDisputes} from "./IDisputes.sol";
import {IEvidence} from "./IEvidence.sol";
import {IRounds} from "./IRounds.sol";
import {ISeats} from "./ISeats.sol";
import {ISettlement} from "./ISettlement.sol";
import {ISteps} from "./ISteps.sol";
import {ITasks} from "./ITasks.sol";
import {IVotes} from "./IVotes.sol";

/// @title All that can be asked of a deployment's `Game`: functions, events and errors of all of its parts.
interface IGame is ITasks, ISeats, IRounds, IVotes, ISettlement, IQueries, IDisputes, ISteps, IEvidence, IContests {}
